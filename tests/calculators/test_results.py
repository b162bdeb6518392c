"""What the ASE calculator computes, when it does, and what it returns."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ase import Atoms
from ase.calculators.calculator import PropertyNotImplementedError

from md_gie.calculators.ase_calculator import GIECalculator

Count = Callable[[GIECalculator], Callable[[], int]]


def test_unchanged_atoms_are_evaluated_once(
    calculator: GIECalculator, crystal: Atoms, count: Count
) -> None:
    crystal.calc, evaluations = calculator, count(calculator)
    crystal.get_forces()
    crystal.get_forces()
    crystal.get_potential_energy()
    crystal.get_potential_energy(force_consistent=True)
    crystal.get_potential_energies()
    crystal.get_stress()
    assert evaluations() == 1


def _move(atoms: Atoms) -> None:
    atoms.positions[0, 0] += 2e-15


def _shear(atoms: Atoms) -> None:
    atoms.cell[1, 0] += 0.1


def _open(atoms: Atoms) -> None:
    atoms.pbc[2] = False


def _exchange(atoms: Atoms) -> None:
    atoms.numbers[[0, 1]] = atoms.numbers[[1, 0]]


@pytest.mark.parametrize("change", [_move, _shear, _open, _exchange])
def test_any_change_is_seen(
    make_calculator: Callable[..., GIECalculator],
    crystal: Atoms,
    count: Count,
    change: Callable[[Atoms], None],
) -> None:
    crystal.calc = make_calculator()
    crystal.positions[0] = 0.0
    evaluations = count(crystal.calc)
    before = crystal.get_forces()
    change(crystal)
    after = crystal.get_forces()
    assert evaluations() == 2
    fresh = make_calculator().get_forces(crystal)
    np.testing.assert_allclose(after, fresh, rtol=0, atol=1e-13)
    assert change is _move or not np.allclose(before, after, rtol=0, atol=1e-6)


def test_what_the_model_does_not_read_costs_nothing(
    calculator: GIECalculator, crystal: Atoms, count: Count
) -> None:
    crystal.calc, evaluations = calculator, count(calculator)
    energy = crystal.get_potential_energy()
    crystal.info.update(charge=1, spin=np.ones(3))
    crystal.set_initial_charges(np.ones(8))
    crystal.set_initial_magnetic_moments(np.ones(8))
    crystal.set_tags(3)
    crystal.set_momenta(np.ones((8, 3)))
    assert crystal.get_potential_energy() == energy
    assert evaluations() == 1


def test_types_and_shapes(calculator: GIECalculator, crystal: Atoms) -> None:
    calculator.calculate(crystal, ["stresses"])
    shapes = {
        name: (value.dtype, value.shape)
        for name, value in calculator.results.items()
        if isinstance(value, np.ndarray)
    }
    f8 = np.dtype("float64")
    assert shapes == {
        "forces": (f8, (8, 3)),
        "energies": (f8, (8,)),
        "stress": (f8, (6,)),
        "stresses": (f8, (8, 6)),
    }
    assert type(calculator.results["energy"]) is float
    assert type(calculator.results["free_energy"]) is float
    assert crystal.calc is None


def test_totals_agree_with_shares(calculator: GIECalculator, crystal: Atoms) -> None:
    crystal.calc = calculator
    energy = crystal.get_potential_energy()
    assert crystal.get_potential_energy(force_consistent=True) == energy
    assert crystal.get_potential_energies().sum() == pytest.approx(energy, rel=1e-14)
    stress = crystal.get_stress()
    np.testing.assert_allclose(crystal.get_stresses().sum(0), stress, rtol=0, atol=1e-15)
    assert abs(stress).max() > 1e-4


def test_voigt_order(calculator: GIECalculator, make_atoms: Callable[..., Atoms]) -> None:
    atoms = make_atoms("triclinic")
    atoms.calc = calculator
    full, voigt = atoms.get_stress(voigt=False), atoms.get_stress()
    np.testing.assert_array_equal(full, full.T)
    picked = [full[0, 0], full[1, 1], full[2, 2], full[1, 2], full[0, 2], full[0, 1]]
    np.testing.assert_array_equal(voigt, picked)
    assert len(set(np.abs(voigt).round(6))) == 6


def test_shares_of_stress_stay_computed(
    calculator: GIECalculator, crystal: Atoms, count: Count
) -> None:
    crystal.calc, evaluations = calculator, count(calculator)
    crystal.get_forces()
    assert "stresses" not in calculator.results
    crystal.get_stresses()
    assert evaluations() == 2
    crystal.rattle(0.01, seed=1)
    crystal.get_forces()
    crystal.get_stresses()
    assert evaluations() == 1


def test_only_computes_when_allowed(
    calculator: GIECalculator, crystal: Atoms, count: Count
) -> None:
    evaluations = count(calculator)
    for name in ("energy", "stress"):
        assert calculator.get_property(name, crystal, allow_calculation=False) is None
    assert calculator.calculation_required(crystal, ["energy"])
    assert evaluations() == 0
    energy = calculator.get_property("energy", crystal)
    assert calculator.get_property("energy", crystal, allow_calculation=False) == energy
    assert not calculator.calculation_required(crystal, ["energy", "forces", "stress"])
    assert calculator.calculation_required(crystal, ["stresses"])
    crystal.positions[3, 1] += 0.1
    assert calculator.calculation_required(crystal, ["energy"])
    assert calculator.get_property("energy", crystal, allow_calculation=False) is None
    assert evaluations() == 1


@pytest.mark.parametrize("name", ["dipole", "magmoms", "no_such_property"])
def test_refuses_other_properties(calculator: GIECalculator, crystal: Atoms, name: str) -> None:
    with pytest.raises(PropertyNotImplementedError, match=name):
        calculator.get_property(name, crystal)
    with pytest.raises(PropertyNotImplementedError, match=f"no {name}; it has energy"):
        calculator.calculate(crystal, ["energy", name])


def test_returned_arrays_are_copies(calculator: GIECalculator, crystal: Atoms) -> None:
    crystal.calc = calculator
    positions = crystal.positions.copy()
    returned: dict[str, Callable[[], Any]] = {
        "forces": crystal.get_forces,
        "energies": crystal.get_potential_energies,
        "stress": crystal.get_stress,
        "stresses": crystal.get_stresses,
    }
    for name, get in returned.items():
        values = get()
        kept = values.copy()
        values += 7.0
        np.testing.assert_array_equal(get(), kept, err_msg=name)
    np.testing.assert_array_equal(crystal.positions, positions)


def test_later_evaluations_leave_earlier_results_alone(
    calculator: GIECalculator, crystal: Atoms
) -> None:
    calculator.calculate(crystal, ["stresses"])
    held = calculator.results
    kept = {name: np.copy(value) for name, value in held.items()}
    for seed in range(4):
        crystal.rattle(0.05, seed=seed)
        calculator.calculate(crystal, ["stresses"])
    for name, value in kept.items():
        np.testing.assert_array_equal(held[name], value, err_msg=name)
        assert not np.array_equal(calculator.results[name], value)


def test_evaluates_the_last_atoms_again(
    calculator: GIECalculator, crystal: Atoms, count: Count
) -> None:
    evaluations = count(calculator)
    forces = calculator.get_forces(crystal)
    calculator.calculate(None, ["stresses"])
    assert evaluations() == 2
    np.testing.assert_allclose(calculator.get_forces(), forces, rtol=0, atol=1e-14)
    crystal.positions += 1.0  # the calculator has its own copy
    np.testing.assert_array_equal(calculator.get_forces(), calculator.results["forces"])
    assert evaluations() == 0
    calculator.reset()
    with pytest.raises(ValueError, match="no structure to evaluate"):
        calculator.get_forces()
