"""``ase.io`` and .h5md files: what was written comes back as atoms, exactly."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import ase.io
import numpy as np
import pytest
from ase import Atoms, units
from ase.calculators.lj import LennardJones
from ase.stress import voigt_6_to_full_3x3_stress

from md_gie.errors import TrajectoryError
from md_gie.trajectory import Frame, H5MDReader


@pytest.fixture
def images() -> list[Atoms]:
    cell = [[5.0, 0.3, 0.0], [0.0, 5.2, 0.1], [0.2, 0.0, 5.4]]
    found = []
    for seed in range(3):
        atoms = Atoms("Ar3", cell=cell, pbc=(True, True, False))
        atoms.positions = [[0.1, 0.2, 0.3], [2.4, 2.6, 0.1], [9.7, 0.4, 2.8]]
        atoms.rattle(0.1, seed=seed)
        atoms.set_masses([39.95, 36.0, 40.0])
        atoms.set_momenta(np.random.default_rng(seed).normal(size=(3, 3)))
        atoms.calc = LennardJones(sigma=2.0, epsilon=0.01)
        atoms.get_stress()
        found.append(atoms)
    return found


def test_what_the_writer_stored_comes_back(
    write: Callable[..., Path], make_frame: Callable[..., Frame], tmp_path: Path
) -> None:
    path = write(tmp_path / "a.h5md", range(0, 10, 2))
    frames = ase.io.read(path, ":")
    assert [atoms.info["step"] for atoms in frames] == [0, 2, 4, 6, 8]
    assert ase.io.read(path).info["step"] == 8
    assert [atoms.info["step"] for atoms in ase.io.read(path, "1::2")] == [2, 6]
    with H5MDReader(path) as reader:
        frame, header = reader[2], reader.header
    atoms = ase.io.read(path, 2)
    np.testing.assert_array_equal(atoms.numbers, header.numbers)
    np.testing.assert_array_equal(atoms.get_masses(), header.masses)
    np.testing.assert_array_equal(atoms.pbc, [True, True, False])
    np.testing.assert_array_equal(atoms.cell.array, make_frame(4).cell)
    np.testing.assert_array_equal(atoms.positions, frame.positions)
    np.testing.assert_allclose(atoms.get_velocities() * units.fs, frame.velocities, rtol=1e-14)
    np.testing.assert_array_equal(atoms.get_forces(), frame.forces)
    assert atoms.get_potential_energy() == make_frame(4).observables["potential_energy"]
    stress = make_frame(4).observables["stress"]
    np.testing.assert_array_equal(
        atoms.get_stress(), stress[[0, 1, 2, 1, 0, 0], [0, 1, 2, 2, 2, 1]]
    )
    assert atoms.info["time_fs"] == 2.0


def test_atoms_make_a_round_trip(images: list[Atoms], tmp_path: Path) -> None:
    path = tmp_path / "a.h5md"
    ase.io.write(path, images[:2])
    ase.io.write(path, images[2], append=True)
    for before, after in zip(images, ase.io.read(path, ":"), strict=True):
        for name in ("numbers", "positions", "pbc"):
            np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
        np.testing.assert_array_equal(after.cell.array, before.cell.array)
        np.testing.assert_array_equal(after.get_masses(), before.get_masses())
        assert after.get_potential_energy() == before.get_potential_energy()
        assert after.get_potential_energy(force_consistent=True) == after.get_potential_energy()
        # float32, in kJ/mol/Å or Å/fs
        np.testing.assert_allclose(after.get_forces(), before.get_forces(), rtol=2e-7, atol=1e-12)
        np.testing.assert_allclose(after.get_momenta(), before.get_momenta(), rtol=2e-7)
        np.testing.assert_allclose(after.get_stress(), before.get_stress(), rtol=1e-15)
        full = voigt_6_to_full_3x3_stress(before.get_stress())
        np.testing.assert_allclose(after.get_stress(voigt=False), full, rtol=1e-15)


def test_without_results_and_momenta(tmp_path: Path) -> None:
    ase.io.write(tmp_path / "a.h5md", Atoms("H2", [[0, 0, 0], [0, 0, 0.7]]))
    atoms = ase.io.read(tmp_path / "a.h5md")
    assert atoms.calc is None
    assert not atoms.has("momenta")
    assert not atoms.pbc.any()


def test_images_of_other_systems_are_refused(images: list[Atoms], tmp_path: Path) -> None:
    images[1].numbers = [18, 18, 36]
    with pytest.raises(TrajectoryError, match="image 1 has other atoms or periodicity"):
        ase.io.write(tmp_path / "a.h5md", images)
    assert not (tmp_path / "a.h5md").exists()


def test_reading_what_is_no_trajectory_gets_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.h5md").write_text("text")
    with pytest.raises(TrajectoryError, match="cannot be read as HDF5"):
        ase.io.read(tmp_path / "a.h5md")
    with pytest.raises(TrajectoryError, match="is not overwritten"):
        ase.io.write(tmp_path / "a.h5md", Atoms("H"))
    assert (tmp_path / "a.h5md").read_text() == "text"


def test_ase_without_such_files_loads_no_reader() -> None:
    script = (
        "import sys, ase.io\n"
        "assert 'md-gie-h5md' in ase.io.formats.ioformats\n"
        "sys.exit('md_gie.trajectory' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
