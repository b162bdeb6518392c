"""Molecules with meaningless cells, slabs through an open face, atoms without neighbors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ase import Atoms
from ase.build import fcc100
from ase.calculators.calculator import PropertyNotImplementedError

from md_gie.calculators.ase_calculator import GIECalculator
from md_gie.errors import StructureError

Make = Callable[..., GIECalculator]


def water(place: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Atoms:
    angle = np.deg2rad(104.5)
    positions = [[0, 0, 0], [0.96, 0, 0], [0.96 * np.cos(angle), 0.96 * np.sin(angle), 0]]
    return Atoms("OHH", positions=np.array(positions) + place)


@pytest.mark.parametrize(
    "cell",
    [None, np.eye(3), 3 * np.eye(3), 50 * np.eye(3), [[3, 0, 0], [2, 3, 0], [-1, 1, 3]]],
    ids=["none", "1 Å", "3 Å", "50 Å", "sheared"],
)
def test_molecule_with_a_meaningless_cell(
    calculator: GIECalculator, cell: Any, evaluate: Any, assert_same: Any
) -> None:
    expected = evaluate(calculator, water())
    assert abs(expected.forces).max() > 0.1
    for place in ((0, 0, 0), (100, -40, 7), (0.1, 2.8, 2.99)):
        atoms = water(place)
        atoms.set_cell(cell)
        for _ in range(2):  # from the neighbor list of the last place, and from one of its own
            assert_same(evaluate(calculator, atoms), expected)
            calculator.reset()
        with pytest.raises(PropertyNotImplementedError):
            calculator.get_stress(atoms)


@pytest.fixture
def slab() -> Atoms:
    """Three layers of nine atoms, the lowest at z = 0, in a cell of 5 Å with open faces."""
    atoms = fcc100("C", (3, 3, 3), a=3.6)
    atoms.set_cell(np.diag([*atoms.cell.lengths()[:2], 5.0]))
    atoms.pbc = [True, True, False]
    atoms.rattle(0.05, seed=3)
    return atoms


def test_slab_across_the_open_face(
    calculator: GIECalculator, slab: Atoms, evaluate: Any, assert_same: Any, dtype: str
) -> None:
    expected = evaluate(calculator, slab)
    expected_planar = expected.stress * slab.get_volume()
    assert abs(expected.forces).max() > 0.02
    assert abs(expected_planar).max() > 0.5
    area = slab.get_volume() / 5.0
    for height, lift in (
        (5.0, 2.5),  # the upper layer above the top face
        (5.0, -1.9),  # a layer and a half below the bottom
        (3.0, -0.5),  # one layer above and one below
        (30.0, 0.0),
        (30.0, 17.3),
        (0.5, 17.3),
    ):
        atoms = slab.copy()
        atoms.cell[2, 2] = height
        atoms.positions[:, 2] += lift
        got = evaluate(calculator, atoms)
        assert_same(got._replace(stress=None), expected._replace(stress=None))
        planar = got.stress * area * height
        tolerance = {"float32": 1e-5, "float64": 1e-7}[dtype] * slab.get_volume()
        np.testing.assert_allclose(planar, expected_planar, rtol=0, atol=tolerance)


def test_slab_with_a_tilted_or_without_a_third_vector(
    calculator: GIECalculator, slab: Atoms, evaluate: Any, assert_same: Any
) -> None:
    expected = evaluate(calculator, slab)
    tilted = slab.copy()
    tilted.cell[2] = [2.0, -1.0, 5.0]  # the same height and therefore volume
    assert_same(evaluate(calculator, tilted), expected)
    flat = slab.copy()
    flat.cell[2] = 0.0
    assert_same(evaluate(calculator, flat), expected._replace(stress=None))
    with pytest.raises(PropertyNotImplementedError):
        calculator.get_stress(flat)


def test_slab_against_vacuum(
    calculator: GIECalculator, slab: Atoms, evaluate: Any, assert_same: Any
) -> None:
    expected = evaluate(calculator, slab)
    periodic = slab.copy()
    periodic.pbc = True
    periodic.cell[2, 2] = 3.6 + 20.0 + 2 * calculator.engine.cutoff
    got = evaluate(calculator, periodic)
    scaled = expected.stress * slab.get_volume() / periodic.get_volume()
    assert_same(got, expected._replace(stress=scaled))


def test_one_atom(calculator: GIECalculator, evaluate: Any, assert_same: Any) -> None:
    alone = evaluate(calculator, Atoms("O", positions=[[1, 2, 3]]))
    boxed = evaluate(calculator, Atoms("O", positions=[[1, 2, 3]], cell=np.eye(3) * 40, pbc=True))
    assert np.isfinite(alone.energy)
    assert not alone.forces.any()
    assert not boxed.forces.any()
    np.testing.assert_array_equal(boxed.stress, np.zeros(6))
    assert boxed.energy == alone.energy
    calculator.calculate(Atoms("O", cell=np.eye(3) * 40, pbc=True), ["stresses"])
    np.testing.assert_array_equal(calculator.results["stresses"], np.zeros((1, 6)))


def test_two_atoms_out_of_reach(calculator: GIECalculator, evaluate: Any) -> None:
    gap = calculator.engine.cutoff + 0.5
    pair = evaluate(calculator, Atoms("OH", positions=[[0, 0, 0], [0, gap, 0]]))
    assert not pair.forces.any()
    parts = [evaluate(calculator, Atoms(symbol, positions=[[0, 0, 0]])).energy for symbol in "OH"]
    assert pair.energy == pytest.approx(sum(parts), abs=1e-6)


def test_one_atom_of_ten_alone(calculator: GIECalculator, evaluate: Any, assert_same: Any) -> None:
    nine = water() + water((2.5, 0.5, 0.3)) + water((0.2, 2.9, -0.4))
    for place in (0, 4, 9):
        ten = nine[:place] + Atoms("C", positions=[[0, 0, 90]]) + nine[place:]
        got, expected = evaluate(calculator, ten), evaluate(calculator, nine)
        alone = evaluate(calculator, Atoms("C", positions=[[0, 0, 0]])).energy
        assert not got.forces[place].any()
        rest = got._replace(energy=got.energy - alone, forces=np.delete(got.forces, place, axis=0))
        assert_same(rest, expected)


def test_no_atoms(calculator: GIECalculator) -> None:
    for empty in (Atoms(), Atoms(cell=np.eye(3) * 5, pbc=True)):
        with pytest.raises(StructureError, match="at least one atom"):
            calculator.get_potential_energy(empty)


def test_an_isolated_atom_may_come_first(
    make_calculator: Make, slab: Atoms, evaluate: Any, assert_same: Any
) -> None:
    calculator = make_calculator()
    evaluate(calculator, Atoms("O", positions=[[0, 0, 0]]))
    assert_same(evaluate(calculator, slab), evaluate(make_calculator(), slab))
