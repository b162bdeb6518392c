"""Brute force in float64, and what turns edges into comparable sets."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import ase.io
import numpy as np
import pytest
from numpy.typing import NDArray

from md_gie.neighbors import Edges, NeighborCache
from md_gie.neighbors.device_compaction import DevicePass

Floats = NDArray[np.float64]
STRUCTURES = Path(__file__).parents[1] / "data" / "structures"


class Case(NamedTuple):
    positions: Floats
    cell: Floats
    pbc: NDArray[np.bool_]
    cutoff: float


class Found(NamedTuple):
    keys: NDArray[np.int64]  # (E, 5): i, j, S; sorted
    vectors: Floats


def brute_force(case: Case, tolerance: float = 0.0) -> Found:
    """All ordered pairs with 1e-10 < d < cutoff - tolerance."""
    positions, cell, pbc, cutoff = case
    lattice = cell[pbc]
    dual = np.linalg.pinv(lattice)  # (3, periodic)
    home = np.rint(positions @ dual)
    near = positions - home @ lattice
    spread = np.ptp(near @ dual, axis=0) if len(near) else np.zeros(len(lattice))
    reach = np.floor(cutoff * np.linalg.norm(dual, axis=0) + spread + 1e-6).astype(int)
    keys, found = [np.zeros((0, 5), int)], [np.zeros((0, 3))]
    for image in itertools.product(*(range(-m, m + 1) for m in reach)):
        moved = near + np.array(image, dtype=float) @ lattice
        vectors = moved[None, :, :] - near[:, None, :]
        distances = np.linalg.norm(vectors, axis=-1)
        i, j = np.nonzero((distances < cutoff - tolerance) & (distances > 1e-10))
        shifts = np.zeros((len(i), 3))
        shifts[:, pbc] = np.array(image) + home[i] - home[j]
        keys.append(np.column_stack([i, j, shifts]).astype(int))
        found.append(vectors[i, j])
    return in_order(np.concatenate(keys), np.concatenate(found))


def in_order(keys: NDArray[np.int64], vectors: Floats) -> Found:
    order = np.lexsort(keys.T[::-1])
    return Found(keys[order], vectors[order])


def edges_found(edges: Edges, case: Case, tolerance: float = 0.0) -> Found:
    """The same from edges, with a check of vectors and row pointer."""
    lattice = case.cell[case.pbc]
    src, dst, vectors = edges.src.numpy(), edges.dst.numpy(), edges.vectors.numpy()
    shifts = np.zeros((len(src), 3))
    difference = case.positions[src] - case.positions[dst]
    shifts[:, case.pbc] = np.rint((vectors - difference) @ np.linalg.pinv(lattice))
    scale = 1.0 + np.abs(case.positions).max(initial=0.0)
    rebuilt = difference + shifts[:, case.pbc] @ lattice
    np.testing.assert_allclose(vectors, rebuilt, rtol=0, atol=1e-14 * scale)
    assert edges.row_ptr[0] == 0
    np.testing.assert_array_equal(np.repeat(np.arange(edges.n_atoms), np.diff(edges.row_ptr)), dst)
    kept = np.linalg.norm(vectors, axis=1) < case.cutoff - tolerance
    return in_order(np.column_stack([dst, src, shifts]).astype(int)[kept], vectors[kept])


def assert_same_edges(edges: Edges, case: Case, tolerance: float = 1e-9) -> None:
    expected, got = brute_force(case, tolerance), edges_found(edges, case, tolerance)
    np.testing.assert_array_equal(got.keys, expected.keys)
    scale = 1.0 + np.abs(case.positions).max(initial=0.0)
    np.testing.assert_allclose(got.vectors, expected.vectors, rtol=0, atol=1e-13 * scale)
    assert_transposed(edges)


def assert_transposed(edges: Edges) -> None:
    src = edges.src.numpy()
    np.testing.assert_array_equal(edges.source_order.numpy(), np.argsort(src, kind="stable"))
    counts = np.bincount(src, minlength=edges.n_atoms)
    np.testing.assert_array_equal(edges.source_ptr.numpy(), np.concatenate([[0], counts.cumsum()]))


def load(name: str) -> Case:
    atoms = ase.io.read(STRUCTURES / f"{name}.extxyz")
    return Case(atoms.positions, atoms.cell.array, atoms.pbc, float(atoms.info["rcut"]))


@pytest.fixture(scope="session")
def check_edges() -> Callable[..., None]:
    return assert_same_edges


@pytest.fixture(scope="session")
def load_case() -> Callable[[str], Case]:
    return load


@pytest.fixture(scope="session")
def liquid() -> Callable[..., Case]:
    """Atoms on a jittered grid at the number density of water's atoms, 0.1 per Å³."""

    def make(side: int, cutoff: float, seed: int = 0) -> Case:
        spacing = 0.1 ** (-1 / 3)
        grid = np.array(list(itertools.product(range(side), repeat=3))) * spacing
        jitter = np.random.default_rng(seed).uniform(-0.4, 0.4, grid.shape)
        return Case(grid + jitter, np.eye(3) * side * spacing, np.ones(3, bool), cutoff)

    return make


@pytest.fixture(scope="session", params=["compiled loops", "tensor operations"])
def make_cache(request: pytest.FixtureRequest) -> Callable[..., NeighborCache]:
    """Caches on the CPU, by the compiled loops and by the operations that serve accelerators."""

    def make(cutoff: float, skin: float = 0.5) -> NeighborCache:
        cache = NeighborCache(cutoff, skin)
        if request.param == "tensor operations":
            cache._pass = DevicePass()
        return cache

    return make
