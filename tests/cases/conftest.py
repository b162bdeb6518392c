"""Calculators, tolerances and comparisons for the trial cases."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from ase import Atoms
from numpy.typing import NDArray

from md_gie.calculators.ase_calculator import GIECalculator
from md_gie.ops import Edges

MODELS = Path(__file__).parents[1] / "data" / "dpa4"
Floats = NDArray[np.float64]


class Values(NamedTuple):
    """Results for one structure; ``stress`` is None where there is none."""

    energy: float
    forces: Floats
    stress: Floats | None


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread: on a busy machine, threads of so small systems mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def make_calculator(dtype: str) -> Callable[..., GIECalculator]:
    """Make calculators whose model has visible forces, in this test's arithmetic."""

    def make(model: str = "p0_water_mini", **settings: Any) -> GIECalculator:
        return GIECalculator(MODELS / f"{model}.pt", device="cpu", **{"dtype": dtype, **settings})

    return make


@pytest.fixture
def calculator(make_calculator: Callable[..., GIECalculator]) -> GIECalculator:
    return make_calculator()


@pytest.fixture(scope="session")
def evaluate() -> Callable[[GIECalculator, Atoms], Values]:
    def call(calculator: GIECalculator, atoms: Atoms) -> Values:
        energy, forces = calculator.get_potential_energy(atoms), calculator.get_forces(atoms)
        stress = calculator.results.get("stress")
        return Values(energy, forces, None if stress is None else stress.copy())

    return call


@pytest.fixture
def assert_same(dtype: str) -> Callable[..., None]:
    """Compare values of equal structures, or of one that is ``repeats`` times the other.

    In float32 energies agree to 2e-5 eV an atom, forces to 1e-4 of the largest (and 1e-5 eV/Å),
    stress to 1e-5 eV/Å³; in float64 a hundred times better.
    """
    factor = {"float32": 1.0, "float64": 0.01}[dtype]

    def compare(got: Values, expected: Values, repeats: int = 1) -> None:
        n_atoms = len(expected.forces) * repeats
        per_atom = factor * max(2e-5, 2e-6 * abs(got.energy) / n_atoms)
        assert got.energy / repeats == pytest.approx(expected.energy, abs=per_atom * n_atoms)
        tile = np.tile(expected.forces, (repeats, 1))
        largest = factor * max(1e-5, 1e-4 * abs(tile).max())
        np.testing.assert_allclose(got.forces, tile, rtol=0, atol=largest)
        assert (got.stress is None) == (expected.stress is None)
        if got.stress is not None and expected.stress is not None:
            np.testing.assert_allclose(got.stress, expected.stress, rtol=0, atol=factor * 1e-5)

    return compare


@pytest.fixture
def record_edges(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[GIECalculator], list[Edges]]:
    """Keep the edges of all evaluations of a calculator in the list that is returned."""

    def watch(calculator: GIECalculator) -> list[Edges]:
        engine, seen = calculator.engine, []
        evaluate = engine.evaluate

        def recording(types: Any, edges: Edges, **options: Any) -> Any:
            seen.append(edges)
            return evaluate(types, edges, **options)

        monkeypatch.setattr(engine, "evaluate", recording)
        return seen

    return watch


@pytest.fixture(scope="session")
def count_neighbors() -> Callable[[Atoms, float], NDArray[np.int64]]:
    """Count each atom's neighbors within a cutoff by brute force over all images."""

    def count(atoms: Atoms, cutoff: float) -> NDArray[np.int64]:
        cell, pbc = atoms.cell.complete().array, atoms.pbc
        positions = atoms.get_positions(wrap=True)
        reach = np.ceil(cutoff * np.linalg.norm(np.linalg.inv(cell), axis=0)).astype(int) + 1
        found = np.zeros(len(atoms), int)
        for image in np.ndindex(*(np.where(pbc, 2 * reach + 1, 1))):
            shift = (np.array(image) - np.where(pbc, reach, 0)) @ cell
            squared = np.zeros((len(atoms), len(atoms)))
            for x, offset in zip(positions.T, shift, strict=True):
                squared += (x[None, :] + offset - x[:, None]) ** 2
            if not shift.any():
                np.fill_diagonal(squared, np.inf)
            found += (squared < cutoff**2).sum(1)
        return found

    return count
