"""Settings of the calculator, and structures that it refuses."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import molecule
from ase.calculators.calculator import PropertyNotImplementedError

import md_gie
from md_gie.calculators.ase_calculator import GIECalculator
from md_gie.errors import StructureError

Make = Callable[..., GIECalculator]
Count = Callable[[GIECalculator], Callable[[], int]]


def test_is_public() -> None:
    assert md_gie.GIECalculator is GIECalculator


def test_settings_change(make_calculator: Make, crystal: Atoms) -> None:
    calculator = make_calculator("p0_smoke")
    model = Path(calculator.parameters["model"])
    coarse = make_calculator("p0_smoke", dtype="float32").get_forces(crystal)
    other = make_calculator("p0_water_mini").get_forces(crystal)
    first = calculator.get_forces(crystal)

    assert calculator.set(skin=1.0) == {"skin": 1.0}
    assert calculator.skin == 1.0
    assert calculator.results == {}
    np.testing.assert_allclose(calculator.get_forces(crystal), first, rtol=0, atol=1e-13)
    assert calculator.set(dtype="float32") == {"dtype": "float32"}
    assert calculator.engine.dtype == torch.float32
    np.testing.assert_array_equal(calculator.get_forces(crystal), coarse)
    calculator.set(dtype="float64", model=model.with_name("p0_water_mini.pt"))
    np.testing.assert_allclose(calculator.get_forces(crystal), other, rtol=0, atol=1e-13)
    assert calculator.set(dtype="float64") == {}
    assert make_calculator(device=torch.device("cpu")).parameters["device"] == "cpu"


def test_a_model_with_other_types(make_calculator: Make, crystal: Atoms, tmp_path: Path) -> None:
    calculator = make_calculator("p0_smoke")
    content = torch.load(calculator.parameters["model"], weights_only=True)
    content["model"]["_extra_state"]["model_params"]["type_map"] = ["H", "O", "C"]
    torch.save(content, tmp_path / "swapped.pt")
    forces = calculator.get_forces(crystal)
    exchanged = crystal.copy()
    exchanged.numbers = crystal.numbers[[1, 0] * 4]
    calculator.set(model=tmp_path / "swapped.pt")
    np.testing.assert_allclose(calculator.get_forces(exchanged), forces, rtol=0, atol=1e-13)
    calculator.get_forces(crystal)
    calculator.set(model=make_calculator("p0_smoke").parameters["model"])
    np.testing.assert_allclose(calculator.get_forces(crystal), forces, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"dtpye": "float64"}, TypeError, "no setting 'dtpye', .*; did you mean dtype"),
        ({"dtype": "float16"}, ValueError, "'float16' is none of float32, float64"),
        ({"skin": -1.0}, ValueError, "skin is -1.0 Å"),
        ({"model": "no-such-model"}, FileNotFoundError, "no model file 'no-such-model'"),
        ({"device": "abacus"}, ValueError, "'abacus' is not a device"),
    ],
)
def test_wrong_settings_change_nothing(
    calculator: GIECalculator,
    crystal: Atoms,
    settings: dict[str, object],
    error: type[Exception],
    message: str,
) -> None:
    energy = calculator.get_potential_energy(crystal)
    before = dict(calculator.parameters)
    with pytest.raises(error, match=message):
        calculator.set(**settings)
    assert calculator.parameters == before
    assert calculator.get_potential_energy(crystal) == energy


def test_arguments_common_to_calculators(make_calculator: Make, tmp_path: Path) -> None:
    water = molecule("H2O")
    calculator = make_calculator(atoms=water, label="water", directory=tmp_path / "here")
    assert water.calc is calculator
    assert calculator.name == "md_gie"
    assert calculator.label == f"{tmp_path}/here/water"
    assert np.isfinite(water.get_potential_energy())
    assert not calculator.get_spin_polarized()


def test_empty(calculator: GIECalculator) -> None:
    with pytest.raises(StructureError, match="empty"):
        calculator.get_potential_energy(Atoms(cell=np.eye(3), pbc=True))


def test_numbers_that_are_not_finite(
    calculator: GIECalculator, crystal: Atoms, count: Count
) -> None:
    good = calculator.get_forces(crystal)
    evaluations = count(calculator)
    for value in (np.nan, np.inf):
        bad = crystal.copy()
        bad.positions[6, 1] = value
        with pytest.raises(StructureError, match="atom 6 at"):
            calculator.get_forces(bad)
        bad = crystal.copy()
        bad.cell[1, 0] = value
        for get in (calculator.get_forces, calculator.get_stress):
            with pytest.raises(StructureError, match="not finite"):
                get(bad)
    assert evaluations() == 0
    np.testing.assert_allclose(calculator.get_forces(crystal), good, rtol=0, atol=1e-13)


@pytest.mark.parametrize("type_", [complex, object])
def test_positions_that_are_no_real_numbers(
    calculator: GIECalculator, crystal: Atoms, type_: type
) -> None:
    crystal.arrays["positions"] = crystal.positions.astype(type_)
    with pytest.raises(StructureError, match=r"positions are of type .*; real numbers are needed"):
        calculator.get_forces(crystal)


def test_no_results_after_an_error(calculator: GIECalculator, crystal: Atoms) -> None:
    calculator.calculate(crystal)
    bad = crystal.copy()
    bad.positions[2] = np.nan
    with pytest.raises(StructureError):
        calculator.calculate(bad)
    assert calculator.results == {}
    with pytest.raises(StructureError):
        calculator.get_potential_energy(bad)


def test_unknown_elements(calculator: GIECalculator, crystal: Atoms) -> None:
    bad = crystal.copy()
    bad.symbols[[2, 5]] = "Fe"
    with pytest.raises(StructureError, match=r"does not know Fe .*indices 2, 5.*knows O, H, C"):
        calculator.get_potential_energy(bad)
    with pytest.raises(StructureError, match="atomic number 0"):
        calculator.get_potential_energy(Atoms("XO", positions=[[0, 0, 0], [0, 0, 1]]))
    assert np.isfinite(calculator.get_potential_energy(crystal))


@pytest.mark.parametrize(
    "positions", [[[0, 0, 0], [0.1, 0, 0]], [[0, 0, 0], [4.3, 4.4, 4.4]], [[1, 1, 1]] * 2]
)
def test_overlaps(calculator: GIECalculator, positions: list[list[float]]) -> None:
    atoms = Atoms("OH", positions=positions, cell=[4.4, 4.4, 4.4], pbc=True)
    with pytest.raises(StructureError, match=r"atoms 0 and 1 are 0(\.1)? Å apart"):
        calculator.get_forces(atoms)


def test_an_atom_too_close_to_its_own_image(calculator: GIECalculator) -> None:
    atoms = Atoms("O", cell=[4.0, 4.0, 0.15], pbc=True)
    with pytest.raises(StructureError, match=r"atom 0 and its own periodic image are 0\.15 Å"):
        calculator.get_forces(atoms)


@pytest.mark.parametrize(
    ("cell", "pbc"),
    [
        ([0, 0, 0], False),
        ([9, 9, 9], False),
        ([[5, 0, 0], [0, 5, 0], [0, 0, 0]], [True, True, False]),
        ([[5, 0, 0], [0, 5, 0], [2, 3, 0]], [True, True, False]),
        ([[5, 1, 0], [0, 5, 2], [5, 6, 2 + 1e-12]], [True, True, False]),
    ],
)
def test_no_stress_without_a_volume(
    calculator: GIECalculator, count: Count, cell: list[object], pbc: bool | list[bool]
) -> None:
    atoms = molecule("H2O")
    atoms.set_cell(cell)
    atoms.pbc = pbc
    atoms.calc, evaluations = calculator, count(calculator)
    for get in (atoms.get_stress, atoms.get_stresses):
        with pytest.raises(PropertyNotImplementedError, match="volume"):
            get()
    forces = atoms.get_forces()
    assert abs(forces).max() > 0.01
    assert "stress" not in calculator.results
    assert evaluations() == 2
