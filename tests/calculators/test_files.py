"""The calculator in files, in copies, and in other processes."""

import copy
import gc
import multiprocessing
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path

import ase.io
import numpy as np
import pytest
from ase import Atoms
from ase.db import connect
from ase.io import Trajectory

from md_gie.calculators.ase_calculator import GIECalculator

Make = Callable[..., GIECalculator]
Count = Callable[[GIECalculator], Callable[[], int]]


@pytest.fixture
def done(crystal: Atoms, make_calculator: Make) -> Atoms:
    """Return the crystal with everything computed."""
    crystal.calc = make_calculator("p0_smoke")
    crystal.get_stresses()
    return crystal


def test_trajectory(done: Atoms, tmp_path: Path, count: Count) -> None:
    evaluations = count(done.calc)
    with Trajectory(tmp_path / "run.traj", "w", done) as trajectory:
        trajectory.write()
    assert evaluations() == 0
    with Trajectory(tmp_path / "run.traj") as trajectory:
        read = trajectory[0]
    assert read.get_potential_energy() == done.get_potential_energy()
    assert read.get_potential_energy(True) == done.get_potential_energy()
    np.testing.assert_array_equal(read.get_forces(), done.get_forces())
    np.testing.assert_array_equal(read.get_stress(), done.get_stress())
    assert read.calc.name == "md_gie"


def test_extended_xyz(done: Atoms, tmp_path: Path, count: Count) -> None:
    evaluations = count(done.calc)
    ase.io.write(tmp_path / "frame.extxyz", done)
    assert evaluations() == 0
    read = ase.io.read(tmp_path / "frame.extxyz")
    assert read.get_potential_energy() == pytest.approx(done.get_potential_energy(), abs=1e-7)
    np.testing.assert_allclose(read.get_forces(), done.get_forces(), rtol=0, atol=1e-7)
    np.testing.assert_allclose(read.get_stress(), done.get_stress(), rtol=0, atol=1e-7)


def test_database_keeps_the_settings(done: Atoms, tmp_path: Path) -> None:
    with connect(tmp_path / "frames.db") as database:
        database.write(done)
        (row,) = database.select(calculator="md_gie")
    assert row.energy == done.get_potential_energy()
    np.testing.assert_array_equal(row.forces, done.get_forces())
    model = done.calc.parameters["model"]
    assert row.calculator_parameters == {"model": model, "device": "cpu", "dtype": "float64"}
    again = GIECalculator(**row.calculator_parameters)
    assert again.get_potential_energy(done) == row.energy


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_duplicates_are_independent(
    done: Atoms, count: Count, duplicate: Callable[[GIECalculator], GIECalculator]
) -> None:
    original = done.calc
    other = duplicate(original)
    assert other.parameters == original.parameters
    assert other.skin == original.skin
    evaluations = count(other)
    np.testing.assert_array_equal(other.get_forces(done), original.get_forces(done))
    assert evaluations() == 0
    moved = done.copy()
    moved.rattle(0.05, seed=8)
    forces = other.get_forces(moved)
    assert evaluations() == 1
    assert original.get_property("forces", done, allow_calculation=False) is not None
    np.testing.assert_allclose(original.get_forces(moved), forces, rtol=0, atol=1e-13)
    other.set(skin=1.5)
    assert original.skin == 0.5


def test_deep_copies_in_the_default_precision(crystal: Atoms, make_calculator: Make) -> None:
    # Weights cast to float32 once wanted gradients: no copies, and twice the memory.
    crystal.calc = make_calculator("p0_smoke", dtype="float32")
    forces = crystal.get_forces()
    other = copy.deepcopy(crystal)
    other.calc.reset()
    np.testing.assert_array_equal(other.get_forces(), forces)


def test_copied_atoms_carry_no_calculator_but_deep_copies_do(done: Atoms) -> None:
    assert done.copy().calc is None
    other = copy.deepcopy(done)
    assert other.calc is not done.calc
    assert other.get_potential_energy() == done.get_potential_energy()


def test_copies_may_share_the_calculator(done: Atoms, make_calculator: Make) -> None:
    other = done.copy()
    other.calc = done.calc
    other.rattle(0.1, seed=4)
    fresh = make_calculator("p0_smoke")
    for atoms in (done, other, done, other):
        expected = fresh.get_forces(atoms)
        fresh.reset()
        np.testing.assert_allclose(atoms.get_forces(), expected, rtol=0, atol=1e-13)


def test_in_a_spawned_process(done: Atoms) -> None:
    moved = done.copy()
    moved.rattle(0.05, seed=8)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        energy = pool.apply(GIECalculator.get_potential_energy, (done.calc, moved))
    assert energy == pytest.approx(done.calc.get_potential_energy(moved), rel=1e-13)


def test_memory_is_freed_without_the_garbage_collector(done: Atoms) -> None:
    engine = weakref.ref(done.calc.engine)
    gc.disable()
    try:
        done.calc = None
        assert engine() is None
    finally:
        gc.enable()
