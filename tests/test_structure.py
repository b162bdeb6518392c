"""Structure: units, checks, and files that are damaged or foreign."""

from pathlib import Path
from typing import Any

import ase
import ase.io
import numpy as np
import pytest
from ase import units

from md_gie.errors import StructureError
from md_gie.structure import Structure, read_structure, symbols_of, write_structure
from md_gie.units import AMU_A2_FS2_EV


def water() -> Structure:
    return Structure(
        numbers=np.array([8, 1, 1]),
        positions=np.array([[0.0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0]]),
        cell=np.diag([5.0, 6.0, 0.0]),
        pbc=np.array([True, True, False]),
        velocities=np.array([[0.01, 0, 0], [0, -0.02, 0], [0, 0, 0.03]]),
        masses=np.array([15.999, 2.014, 1.008]),
    )


def test_velocities_are_per_femtosecond() -> None:
    atoms = ase.Atoms("O", velocities=[[1.0, 0, 0]])
    structure = Structure.from_ase(atoms)
    assert structure.velocities is not None
    kinetic = 0.5 * structure.masses[0] * structure.velocities[0, 0] ** 2 * AMU_A2_FS2_EV
    assert kinetic == pytest.approx(atoms.get_kinetic_energy(), rel=1e-6)
    atoms.positions += atoms.get_velocities() * units.fs
    np.testing.assert_allclose(structure.velocities, atoms.positions, rtol=1e-12)


def test_round_trip_through_ase() -> None:
    before = water()
    after = Structure.from_ase(before.to_ase())
    for name in ("numbers", "positions", "cell", "pbc", "masses"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert before.velocities is not None
    assert after.velocities is not None
    np.testing.assert_allclose(after.velocities, before.velocities, rtol=1e-14)
    assert after.symbols == ("O", "H", "H")
    assert len(after) == 3


def test_no_velocities_stay_none() -> None:
    assert Structure.from_ase(ase.Atoms("H2")).velocities is None
    assert "momenta" not in Structure.from_ase(ase.Atoms("H2")).to_ase().arrays


def test_arrays_are_copies() -> None:
    atoms = ase.Atoms("H2", positions=[[0, 0, 0], [0, 0, 0.7]], cell=[4, 4, 4])
    structure = Structure.from_ase(atoms)
    atoms.positions += 1.0
    atoms.cell[0, 0] = 99.0
    assert structure.positions[0, 0] == 0.0
    assert structure.cell[0, 0] == 4.0
    structure.to_ase().positions += 1.0
    assert structure.positions[0, 0] == 0.0


def test_types_are_settled() -> None:
    structure = Structure([1, 1], [[0, 0, 0], [0, 0, 1]], np.eye(3), True)  # type: ignore[arg-type]
    assert structure.numbers.dtype == np.int64
    assert structure.positions.dtype == np.float64
    assert structure.pbc.tolist() == [True, True, True]
    np.testing.assert_allclose(structure.masses, 1.008)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "positions": ({"positions": np.zeros((2, 3))}, "positions have shape"),
    "cell": ({"cell": np.zeros(3)}, "cell have shape"),
    "velocities": ({"velocities": np.zeros((3, 2))}, "velocities have shape"),
    "NaN": ({"positions": np.full((3, 3), np.nan)}, "9 values of positions .* at atom 0"),
    "inf velocity": ({"velocities": np.diag([0, np.inf, 0])}, "velocities .* at atom 1"),
    "cell inf": ({"cell": np.diag([1, 1, np.inf])}, "cell .* at row 2"),
    "number 0": ({"numbers": np.array([8, 0, 1])}, "atom 1 has atomic number 0"),
    "number 200": ({"numbers": np.array([8, 1, 200])}, "atom 2 has atomic number 200"),
    "mass": ({"masses": np.array([16.0, 1.0, 0.0])}, "mass of atom 2 is 0 amu"),
}


@pytest.mark.parametrize("name", BAD)
def test_structures_that_cannot_be(name: str) -> None:
    change, words = BAD[name]
    fields = {key: getattr(water(), key) for key in Structure.__dataclass_fields__}
    with np.errstate(invalid="ignore"), pytest.raises(StructureError, match=words):
        Structure(**{**fields, **change})


def test_symbols() -> None:
    assert symbols_of([1, 8, 118]) == ("H", "O", "Og")
    assert symbols_of([]) == ()


@pytest.mark.parametrize("ending", ["extxyz", "traj", "json"])
def test_files(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"water.{ending}"
    write_structure(path, water())
    back = read_structure(str(path))
    np.testing.assert_allclose(back.positions, water().positions, atol=1e-8)
    np.testing.assert_allclose(back.cell, water().cell)
    np.testing.assert_array_equal(back.pbc, water().pbc)
    np.testing.assert_allclose(back.masses, water().masses)
    assert back.velocities is not None
    np.testing.assert_allclose(back.velocities, water().velocities, atol=1e-8)


def test_last_frame_is_read(tmp_path: Path) -> None:
    path = tmp_path / "two.xyz"
    ase.io.write(path, [ase.Atoms("H"), ase.Atoms("He")])
    assert read_structure(path).symbols == ("He",)


DAMAGED = {
    "empty.xyz": ("", "could not be read"),
    "cut.extxyz": ("3\nLattice\nO 0 0 0\n", "could not be read"),
    "words.xyz": ("not a structure at all\n", "could not be read"),
    "binary.dat": ("\x00\x01\x02", "could not be read"),
    "none.xyz": ("0\n\n", "holds no atoms"),
    "nan.xyz": ("2\n\nH 0 0 0\nH nan 0 0\n", "nan.xyz: 1 values of positions .* at atom 1"),
    "ghost.xyz": ("1\n\nX 0 0 0\n", "atomic number 0"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_files_that_are_refused(name: str, tmp_path: Path) -> None:
    text, words = DAMAGED[name]
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(StructureError, match=words) as caught:
        read_structure(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_and_unwritable_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such structure file"):
        read_structure(tmp_path / "nowhere.xyz")
    with pytest.raises(FileNotFoundError, match="no such structure file"):
        read_structure(tmp_path)
    with pytest.raises(ValueError, match="no format with this name ending"):
        write_structure(tmp_path / "water.nonsense", water())


def test_frozen_atoms_are_kept_and_other_constraints_refused(tmp_path):
    from ase.constraints import FixAtoms, FixBondLength

    atoms = ase.Atoms("OH2", positions=[[0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0]])
    atoms.set_constraint([FixAtoms([0]), FixAtoms([2])])
    path = tmp_path / "fixed.extxyz"
    ase.io.write(path, atoms, columns=["symbols", "positions", "move_mask"])
    structure = read_structure(path)
    assert structure.frozen.tolist() == [True, False, True]
    assert structure.to_ase().constraints[0].index.tolist() == [0, 2]
    assert not water().frozen.any()
    assert not water().to_ase().constraints
    atoms.set_constraint([FixAtoms([0]), FixBondLength(0, 1)])
    with pytest.raises(StructureError, match=r"has constraints \(FixB.*\), and md_gie can freeze"):
        Structure.from_ase(atoms)


def test_an_at_sign_in_a_file_name_is_part_of_the_name(tmp_path):
    path = tmp_path / "w@0.extxyz"
    ase.io.write(path, ase.Atoms("H", positions=[[0.0, 0.0, 0.0]]))
    assert len(read_structure(path)) == 1


def test_atomic_numbers_must_be_whole():
    with pytest.raises(StructureError, match=r"atom 1 has atomic number 8\.5; atomic numbers are"):
        symbols_of([1, 8.5])


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("positions", np.zeros((3, 3), complex), "positions are of type complex128; real numbers"),
        ("positions", np.zeros((3, 3), object), "positions are of type object; real numbers"),
        ("positions", [["a", "b", "c"]] * 3, "positions are of type <U1; real numbers"),
        ("positions", [[0, 0, 0], [1, 1], [2]], "positions cannot be made an array"),
        ("cell", np.eye(3) * 5j, "cell are of type complex128"),
        ("velocities", [[None] * 3] * 3, "velocities are of type object"),
    ],
)
def test_what_is_no_real_number_gets_one_sentence(name: str, values: Any, message: str) -> None:
    fields = {name: getattr(water(), name) for name in ("numbers", "positions", "cell", "pbc")}
    with pytest.raises(StructureError, match=message):
        Structure(**{**fields, name: values})
