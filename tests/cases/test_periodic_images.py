"""Cells smaller than the cutoff, coordinates outside the cell, crowded environments."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ase import Atoms, units
from ase.build import bulk
from ase.md.verlet import VelocityVerlet
from numpy.typing import NDArray

from md_gie.calculators.ase_calculator import GIECalculator
from md_gie.neighbors import NeighborCache
from md_gie.ops import Edges

Make = Callable[..., GIECalculator]
Record = Callable[[GIECalculator], list[Edges]]
Count = Callable[[Atoms, float], NDArray[np.int64]]

PRIMITIVE = {
    "fcc": bulk("C", "fcc", a=3.6),
    "hexagonal": bulk("C", "hcp", a=2.5, c=4.1),
    "CsCl": bulk("OH", "cesiumchloride", a=2.9),
}


@pytest.mark.parametrize("lattice", PRIMITIVE)
def test_primitive_cell_against_supercells(
    calculator: GIECalculator,
    lattice: str,
    evaluate: Any,
    assert_same: Any,
    record_edges: Record,
    count_neighbors: Count,
) -> None:
    cell, edges = PRIMITIVE[lattice], record_edges(calculator)
    expected = evaluate(calculator, cell)
    neighbors = count_neighbors(cell, calculator.engine.cutoff)
    assert neighbors.min() > 50
    np.testing.assert_array_equal(edges[-1].row_ptr.diff(), neighbors)
    np.testing.assert_allclose(expected.forces, 0.0, atol=2e-5)
    for repeats in ((2, 2, 2), (3, 3, 3), (4, 4, 4), (1, 2, 5)):
        n_cells = int(np.prod(repeats))
        assert_same(evaluate(calculator, cell.repeat(repeats)), expected, n_cells)
        np.testing.assert_array_equal(edges[-1].row_ptr.diff(), np.tile(neighbors, n_cells))


@pytest.fixture
def disordered() -> Atoms:
    """Return 64 atoms on a disordered simple cubic lattice in a sheared cell."""
    rng = np.random.default_rng(4)
    grid = np.array(list(np.ndindex(4, 4, 4))) * 2.6
    atoms = Atoms("OHHC" * 16, positions=grid, cell=np.eye(3) * 10.4, pbc=True)
    atoms.set_cell([[10.4, 0, 0], [1.5, 10.4, 0], [0, 0, 10.4]], scale_atoms=True)
    atoms.positions += rng.uniform(-0.3, 0.3, (64, 3))
    return atoms


def unwrap(atoms: Atoms) -> Atoms:
    """Move every atom by lattice vectors of its own."""
    steps = np.random.default_rng(5).integers(-7, 8, (len(atoms), 3))
    moved = atoms.copy()
    moved.positions += steps @ atoms.cell.array
    return moved


def test_unwrapped_coordinates(
    calculator: GIECalculator, disordered: Atoms, evaluate: Any, assert_same: Any
) -> None:
    expected = evaluate(calculator, disordered)
    for _ in range(2):  # from the list of the other coordinates, and from one of its own
        assert_same(evaluate(calculator, unwrap(disordered)), expected)
        calculator.reset()


def test_unwrapped_dynamics(make_calculator: Make, disordered: Atoms, dtype: str) -> None:
    disordered.set_masses(np.full(64, 60.0))  # a random model does not keep light atoms apart
    widths = np.sqrt(disordered.get_masses() * units.kB * 300)[:, None]
    momenta = np.random.default_rng(6).normal(size=(64, 3)) * widths
    ends, middles = [], []
    for atoms in (disordered, unwrap(disordered)):
        atoms.calc = make_calculator("p0_smoke")
        atoms.set_momenta(momenta)
        dynamics = VelocityVerlet(atoms, 1.0 * units.fs)
        before = atoms.positions.copy()
        for _ in dynamics.irun({"float32": 200, "float64": 60}[dtype]):
            assert abs(atoms.positions - before).max() < 0.3  # nobody wraps
            before = atoms.positions.copy()
            if dynamics.nsteps == 50:
                middles.append(before)
        ends.append(before)
    for one, other in (middles, ends):
        steps = (other - one) @ np.linalg.inv(disordered.cell.array)
        apart = (steps - steps.round()) @ disordered.cell.array
        np.testing.assert_allclose(apart, 0.0, atol=1e-3)
        assert abs(steps.round()).max() == 7
    assert abs(ends[0] - middles[0]).max() > 0.02


def crowd(n_atoms: int, box: float, closest: float, seed: int = 7) -> Atoms:
    """Atoms at random in a periodic cube, none closer than ``closest``."""
    rng = np.random.default_rng(seed)
    kept = np.empty((0, 3))
    while len(kept) < n_atoms:
        for point in rng.random((n_atoms, 3)) * box:
            apart = kept - point
            apart -= box * np.round(apart / box)
            if len(kept) < n_atoms and ((apart**2).sum(1) > closest**2).all():
                kept = np.vstack([kept, point])
    symbols = rng.choice(["O", "H", "C"], n_atoms)
    return Atoms(symbols, positions=kept, cell=np.eye(3) * box, pbc=True)


def test_crowded_environment(
    make_calculator: Make, dtype: str, record_edges: Record, count_neighbors: Count
) -> None:
    atoms = crowd(1000 if dtype == "float32" else 500, 10.0, 0.7)
    calculator = make_calculator("p0_smoke")
    edges = record_edges(calculator)
    forces = calculator.get_forces(atoms)
    neighbors = count_neighbors(atoms, calculator.engine.cutoff)
    assert neighbors.min() > 0.85 * len(atoms)
    np.testing.assert_array_equal(edges[0].row_ptr.diff(), neighbors)
    np.testing.assert_allclose(forces.sum(0), 0.0, atol=1e-12 * len(atoms))
    assert np.isfinite(calculator.results["energy"])
    assert abs(forces).max() > 1e-3


def test_dense_cluster_in_a_large_cube(
    make_calculator: Make,
    evaluate: Any,
    assert_same: Any,
    record_edges: Record,
    count_neighbors: Count,
) -> None:
    atoms = crowd(60, 6.0, 0.9)
    atoms.set_cell(np.eye(3) * 200)
    calculator = make_calculator()
    edges = record_edges(calculator)
    inside = evaluate(calculator, atoms)
    np.testing.assert_array_equal(
        edges[0].row_ptr.diff(), count_neighbors(atoms, calculator.engine.cutoff)
    )
    free = Atoms(atoms.symbols, positions=atoms.positions)
    assert_same(inside._replace(stress=None), evaluate(calculator, free))


def test_short_cutoff(count_neighbors: Count) -> None:
    """No model here has so short a cutoff; the edges are right all the same."""
    atoms = crowd(400, 10.0, 0.7)
    edges = NeighborCache(1.8).update(atoms.positions, atoms.cell.array, atoms.pbc)
    np.testing.assert_array_equal(edges.row_ptr.diff(), count_neighbors(atoms, 1.8))
