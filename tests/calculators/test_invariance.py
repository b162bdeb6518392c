"""Symmetries of energy, forces and stress, and a neighbor list that is kept along a path."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest
from ase import Atoms
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from md_gie.calculators.ase_calculator import GIECalculator

KINDS = ["cubic", "triclinic", "skewed", "left-handed", "slab", "rod", "molecule"]
Floats = NDArray[np.float64]
close = partial(np.testing.assert_allclose, rtol=0)


@pytest.fixture(params=KINDS)
def atoms(request: pytest.FixtureRequest, make_atoms: Callable[..., Atoms]) -> Atoms:
    return make_atoms(request.param)


def lattice_steps(atoms: Atoms, seed: int = 0, largest: int = 7) -> Floats:
    """Random lattice vectors, one for each atom."""
    steps = np.random.default_rng(seed).integers(-largest, largest + 1, (len(atoms), 3))
    return (steps * atoms.pbc) @ atoms.cell.array


def test_translation_and_wrapping(calculator: GIECalculator, atoms: Atoms) -> None:
    energies, forces = calculator.get_potential_energies(atoms), calculator.get_forces(atoms)
    for steps in (np.array([1.7, -13.1, 4.9]), lattice_steps(atoms)):
        other = atoms.copy()
        other.positions += steps
        calculator.reset()
        close(calculator.get_potential_energies(other), energies, atol=1e-11)
        close(calculator.get_forces(other), forces, atol=1e-11)


def test_rotation(calculator: GIECalculator, atoms: Atoms) -> None:
    energies, forces = calculator.get_potential_energies(atoms), calculator.get_forces(atoms)
    stress = calculator.results.get("stress")
    # Proper rotations only: DPA4 tells an environment from its mirror image.
    for vector in ([0.4, -1.1, 0.7], [0.0, 0.0, np.pi / 2]):
        matrix = Rotation.from_rotvec(vector).as_matrix()
        other = atoms.copy()
        other.set_cell(atoms.cell.array @ matrix)
        other.positions = atoms.positions @ matrix
        close(calculator.get_potential_energies(other), energies, atol=1e-11)
        close(calculator.get_forces(other), forces @ matrix, atol=1e-11)
        if stress is not None:
            other.calc = calculator
            full = matrix.T @ stress[[[0, 5, 4], [5, 1, 3], [4, 3, 2]]] @ matrix
            close(other.get_stress(voigt=False), full, atol=1e-12)
    assert (stress is None) == (not atoms.pbc.any())


def test_permutation(calculator: GIECalculator, atoms: Atoms) -> None:
    order = np.random.default_rng(1).permutation(len(atoms))
    energies, forces = calculator.get_potential_energies(atoms), calculator.get_forces(atoms)
    other = atoms[order]
    close(calculator.get_potential_energies(other), energies[order], atol=1e-11)
    close(calculator.get_forces(other), forces[order], atol=1e-11)


def test_supercell(calculator: GIECalculator, atoms: Atoms) -> None:
    repeats = np.where(atoms.pbc, [2, 1, 3], 1)
    n_cells = int(repeats.prod())
    energies, forces = calculator.get_potential_energies(atoms), calculator.get_forces(atoms)
    stress = calculator.results.get("stress")
    other = atoms.repeat(repeats)
    repeated = np.tile(energies, n_cells)
    close(calculator.get_potential_energies(other), repeated, atol=1e-11)
    close(calculator.get_forces(other), np.tile(forces, (n_cells, 1)), atol=1e-11)
    if stress is not None:
        close(calculator.get_stress(other), stress, atol=1e-12)


def test_no_net_force_or_torque(calculator: GIECalculator, atoms: Atoms) -> None:
    forces = calculator.get_forces(atoms)
    close(forces.sum(0), 0.0, atol=1e-13)
    if not atoms.pbc.any():
        close(np.cross(atoms.positions, forces).sum(0), 0.0, atol=1e-12)


@pytest.mark.parametrize("kind", ["triclinic", "slab", "molecule"])
def test_skin_changes_nothing_along_a_path(
    make_calculator: Callable[..., GIECalculator], make_atoms: Callable[..., Atoms], kind: str
) -> None:
    kept, fresh = make_calculator("p0_smoke", skin=0.8), make_calculator("p0_smoke", skin=0.0)
    for step, atoms in enumerate(walk(make_atoms(kind))):
        for name in ("energy", "forces"):
            got, expected = kept.get_property(name, atoms), fresh.get_property(name, atoms)
            close(got, expected, atol=1e-10, err_msg=f"step {step}")
    assert 2 < kept._cache.n_builds < 30
    assert kept._cache.n_reuses > 30
    assert fresh._cache.n_builds == 60


def walk(atoms: Atoms) -> Iterator[Atoms]:
    """Atoms that drift apart, are wrapped now and then, in a cell that changes now and then."""
    rng = np.random.default_rng(2)
    for step in range(60):
        atoms.positions += rng.normal(scale=0.04, size=(len(atoms), 3))
        if step % 7 == 3:
            atoms.wrap()
        if step % 11 == 5:
            atoms.positions += lattice_steps(atoms, seed=step, largest=2)
        if step % 13 == 6 and atoms.pbc.any():
            strain = np.eye(3) + rng.normal(scale=0.004, size=(3, 3))
            atoms.set_cell(atoms.cell.array @ strain, scale_atoms=True)
        yield atoms


def test_energy_is_smooth_where_an_atom_crosses_the_cutoff(
    make_calculator: Callable[..., GIECalculator],
) -> None:
    calculator = make_calculator("p0_smoke")
    cutoff = calculator.engine.cutoff
    water = Atoms("OHH", positions=[[0, 0, 0], [0.76, 0.59, 0], [-0.76, 0.59, 0]])
    energies, pulls = [], []
    for gap in (-1e-3, -1e-4, -1e-7, -1e-9, 0.0, 1e-9, 1e-3):
        atoms = water + Atoms("C", positions=[[0, -(cutoff + gap), 0]])
        energies.append(calculator.get_potential_energy(atoms))
        pulls.append(calculator.get_forces(atoms)[3])
    far = calculator.get_potential_energy(water + Atoms("C", positions=[[0, -50, 0]]))
    close(energies[2:], far, atol=1e-12)
    close(energies, far, atol=1e-6)
    close(pulls[2:], 0.0, atol=1e-10)
    near = calculator.get_potential_energy(water + Atoms("C", positions=[[0, -4.0, 0]]))
    assert abs(near - far) > 1e-6
