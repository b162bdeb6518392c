"""Stress of a triclinic cell: order, sign, shape, finite differences, and its uses in ASE."""

from collections.abc import Callable

import numpy as np
import pytest
from ase import Atoms
from ase.calculators.lj import LennardJones
from ase.calculators.mixing import SumCalculator
from ase.filters import FrechetCellFilter, UnitCellFilter
from ase.optimize import BFGS
from numpy.typing import NDArray

from md_gie.calculators.ase_calculator import GIECalculator

Make = Callable[..., GIECalculator]
VOIGT = [(0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1)]


@pytest.fixture
def cell16() -> Atoms:
    """Sixteen atoms of two elements, displaced from a lattice in a triclinic cell."""
    grid = np.array([(x, y, z) for x in range(2) for y in range(2) for z in range(4)])
    atoms = Atoms("OH" * 8, scaled_positions=grid / [2, 2, 4], pbc=True, cell=np.eye(3))
    atoms.set_cell([[5.1, 0, 0], [1.2, 4.8, 0], [-0.7, 0.9, 5.5]], scale_atoms=True)
    atoms.positions += np.random.default_rng(8).normal(scale=0.1, size=(16, 3))
    return atoms


def differences(calculator: GIECalculator, atoms: Atoms, step: float) -> NDArray[np.float64]:
    """Central differences of the energy with six symmetric strains, in eV/Å³."""
    stress = []
    for i, j in VOIGT:
        energies = []
        for sign in (1, -1):
            strain = np.eye(3)
            strain[i, j] += sign * step / 2
            strain[j, i] += sign * step / 2
            strained = atoms.copy()
            strained.set_cell(atoms.cell.array @ strain, scale_atoms=True)
            energies.append(calculator.get_potential_energy(strained))
        stress.append((energies[0] - energies[1]) / (2 * step * atoms.get_volume()))
    return np.array(stress)


def test_against_finite_differences(make_calculator: Make, cell16: Atoms, dtype: str) -> None:
    calculator = make_calculator()
    cell16.calc = calculator
    voigt, full = cell16.get_stress(), cell16.get_stress(voigt=False)
    step, tolerance = {"float32": (1e-3, 1e-4), "float64": (1e-4, 1e-8)}[dtype]
    numerical = differences(calculator, cell16, step)
    assert abs(numerical).max() > 50 * tolerance
    assert len(set(numerical.round(5))) == 6
    np.testing.assert_allclose(
        voigt, numerical, rtol=0.01 if dtype == "float32" else 0, atol=tolerance
    )
    assert calculator.results["stress"].shape == (6,)
    np.testing.assert_array_equal(calculator.get_property("stress", cell16), voigt)
    np.testing.assert_array_equal(full, full.T)
    np.testing.assert_array_equal([full[i, j] for i, j in VOIGT], voigt)


def test_stretching_raises_the_stress(make_calculator: Make) -> None:
    """Positive under tension: where the energy rises with the volume."""
    calculator = make_calculator()
    crystal = Atoms("CO", scaled_positions=[[0, 0, 0], [0.5, 0.5, 0.5]], cell=[3, 3, 3], pbc=True)
    for scale in (0.7, 0.9, 1.1, 1.4):
        atoms = crystal.copy()
        atoms.set_cell(crystal.cell * scale, scale_atoms=True)
        larger = atoms.copy()
        larger.set_cell(atoms.cell * 1.001, scale_atoms=True)
        rise = calculator.get_potential_energy(larger) - calculator.get_potential_energy(atoms)
        mean = calculator.get_stress(atoms)[:3].mean()
        assert abs(mean) > 1e-5
        assert np.sign(rise) == np.sign(mean)


def test_sum_with_lennard_jones(make_calculator: Make, cell16: Atoms, dtype: str) -> None:
    parts = [make_calculator(), LennardJones(sigma=2.0, epsilon=0.05, rc=5.0)]
    expected = sum(part.get_stress(cell16) for part in parts)
    cell16.calc = SumCalculator(parts)
    np.testing.assert_allclose(cell16.get_stress(), expected, rtol=0, atol=1e-12)
    full = cell16.get_stress(voigt=False)
    np.testing.assert_array_equal([full[i, j] for i, j in VOIGT], cell16.get_stress())


@pytest.mark.parametrize("cell_filter", [FrechetCellFilter, UnitCellFilter])
def test_relaxing_the_cell_lowers_the_enthalpy(
    make_calculator: Make,
    cell16: Atoms,
    cell_filter: type[FrechetCellFilter] | type[UnitCellFilter],
) -> None:
    cell16.calc = make_calculator()
    pressure = 0.002  # eV/Å³

    def enthalpy() -> float:
        energy: float = cell16.get_potential_energy()
        return energy + pressure * cell16.get_volume()

    before = enthalpy()
    BFGS(cell_filter(cell16, scalar_pressure=pressure), logfile=None).run(fmax=1e-3, steps=6)
    assert enthalpy() < before - 1e-2
