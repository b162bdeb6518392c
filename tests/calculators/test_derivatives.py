"""Forces and stress against differences of the energy, in every kind of cell."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk
from ase.calculators.fd import (
    FiniteDifferenceCalculator,
    calculate_numerical_forces,
    calculate_numerical_stress,
)

from md_gie.calculators.ase_calculator import GIECalculator

close = partial(np.testing.assert_allclose, rtol=0)
KINDS = ["cubic", "triclinic", "skewed", "left-handed", "slab", "rod", "molecule"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", ["p0_smoke", "p0_water_mini"])
def test_forces(
    make_calculator: Callable[..., GIECalculator],
    make_atoms: Callable[..., Atoms],
    model: str,
    kind: str,
) -> None:
    atoms = make_atoms(kind)
    atoms.calc = make_calculator(model)
    forces = atoms.get_forces()
    numerical = calculate_numerical_forces(atoms, eps=1e-4, iatoms=[0, 4])
    largest = abs(forces).max()
    assert largest > 1e-3
    close(forces[[0, 4]], numerical, atol=1e-6 * largest)


@pytest.mark.parametrize("kind", KINDS[:-1])
@pytest.mark.parametrize("model", ["p0_smoke", "p0_water_mini"])
def test_stress(
    make_calculator: Callable[..., GIECalculator],
    make_atoms: Callable[..., Atoms],
    model: str,
    kind: str,
) -> None:
    atoms = make_atoms(kind)
    atoms.calc = make_calculator(model)
    stress = atoms.get_stress()
    numerical = calculate_numerical_stress(atoms, eps=1e-4)
    largest = abs(stress).max()
    assert largest > 1e-5
    close(stress, numerical, atol=2e-6 * largest)


def test_cell_smaller_than_the_cutoff(calculator: GIECalculator) -> None:
    """Each atom sees hundreds of images, most of them of itself."""
    atoms = Atoms("OH", positions=[[0, 0, 0], [0.9, 1.1, 0.8]], pbc=True)
    atoms.cell = [[2.1, 0.1, 0], [0.3, 2.3, 0.2], [-0.4, 0.2, 1.9]]
    atoms.calc = calculator
    forces, stress = atoms.get_forces(), atoms.get_stress()
    close(forces, calculate_numerical_forces(atoms, eps=1e-4), atol=1e-7)
    close(stress, calculate_numerical_stress(atoms, eps=1e-4), atol=1e-8)
    assert abs(forces).max() > 1e-2
    assert abs(stress).max() > 1e-2


def test_one_atom_cell(calculator: GIECalculator) -> None:
    atoms = bulk("C", "fcc", a=3.6)
    atoms.set_cell(atoms.cell @ [[1, 0.02, 0], [0, 1.01, 0.03], [0, 0, 1]], scale_atoms=True)
    atoms.calc = calculator
    close(atoms.get_forces(), 0.0, atol=1e-14)
    numerical = calculate_numerical_stress(atoms, eps=1e-4)
    close(atoms.get_stress(), numerical, atol=1e-9)


def test_atoms_in_other_images(
    make_calculator: Callable[..., GIECalculator], make_atoms: Callable[..., Atoms]
) -> None:
    """Two atoms whose images inside the box are close, far apart as given."""
    atoms = make_atoms("triclinic")
    atoms.positions[1] += [3, -5, 2] @ atoms.cell.array
    atoms.positions[4] -= [40, 0, 7] @ atoms.cell.array
    atoms.calc = make_calculator()
    forces, stress = atoms.get_forces(), atoms.get_stress()
    numerical = calculate_numerical_forces(atoms, eps=1e-4, iatoms=[1, 4])
    close(forces[[1, 4]], numerical, atol=1e-6 * abs(forces).max())
    numerical = calculate_numerical_stress(atoms, eps=1e-4)
    close(stress, numerical, atol=2e-6 * abs(stress).max())


def test_single_precision(
    make_calculator: Callable[..., GIECalculator], make_atoms: Callable[..., Atoms]
) -> None:
    """Differences of a float32 energy are coarse, but forces and stress come close to float64's."""
    atoms = make_atoms("triclinic")
    single, double = make_calculator(dtype="float32"), make_calculator()
    for name in ("forces", "stress", "energies"):
        coarse, fine = single.get_property(name, atoms), double.get_property(name, atoms)
        close(coarse, fine, atol=2e-5 * abs(fine).max(), err_msg=name)
        assert not np.array_equal(coarse, fine)
    atoms.calc = single
    numerical = calculate_numerical_forces(atoms, eps=1e-2, iatoms=[0])
    close(atoms.get_forces()[[0]], numerical, atol=5e-3)


def test_finite_difference_calculator_accepts_it(
    make_calculator: Callable[..., GIECalculator], crystal: Atoms
) -> None:
    calculator = make_calculator("p0_smoke")
    forces, stress = calculator.get_forces(crystal), calculator.get_stress(crystal)
    crystal.calc = FiniteDifferenceCalculator(calculator, eps_disp=1e-4, eps_strain=1e-4)
    close(crystal.get_forces(), forces, atol=1e-8)
    close(crystal.get_stress(), stress, atol=1e-9)
