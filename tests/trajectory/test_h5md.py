"""H5MD files: layout as other programs expect it, frames as they were given."""

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from md_gie.trajectory import H5MDReader, H5MDWriter, TrajectoryHeader, TrajectoryOptions
from md_gie.units import EV_KJ_MOL
from tests.trajectory.conftest import NUMBERS, OPTIONS, make_frame, write


def test_frames_come_back_as_stored(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5md", range(0, 300, 2))
    with H5MDReader(path) as reader:
        assert len(reader) == 150
        reader.verify()
        for index, frame in enumerate(reader):
            given = make_frame(2 * index)
            assert (frame.step, frame.time_fs) == (given.step, given.time_fs)
            np.testing.assert_array_equal(frame.cell, given.cell)
            np.testing.assert_array_equal(frame.positions, given.positions.astype("f4"))
            assert given.velocities is not None
            np.testing.assert_array_equal(frame.velocities, given.velocities.astype("f4"))
            # One rounding to float32 in kJ/mol/Å.
            np.testing.assert_allclose(frame.forces, given.forces, rtol=6e-8)
            assert frame.observables["potential_energy"] == given.observables["potential_energy"]
            np.testing.assert_array_equal(frame.observables["stress"], given.observables["stress"])
        assert reader[-1].step == 298
        with pytest.raises(IndexError, match="frame 150 of 150"):
            reader[150]
        np.testing.assert_array_equal(reader.steps, np.arange(0, 300, 2))
        np.testing.assert_array_equal(reader.observable("potential_energy"), -reader.steps / 3)
        np.testing.assert_array_equal(reader.header.numbers, NUMBERS)
        assert reader.header.pbc == (True, True, False)
        assert reader.header.metadata == {"config": "{}"}


def test_float64_positions_and_ev_forces_are_exact(tmp_path: Path) -> None:
    options = TrajectoryOptions(
        OPTIONS.observables, position_dtype="f8", force_unit="eV Angstrom-1", compression="gzip"
    )
    with H5MDReader(write(tmp_path / "a.h5md", range(3), options)) as reader:
        given = make_frame(2)
        assert given.forces is not None
        np.testing.assert_array_equal(reader[2].positions, given.positions)
        np.testing.assert_array_equal(reader[2].forces, given.forces.astype("f4"))


def test_layout_is_h5md(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5md", range(5))
    assert path.read_bytes()[8] == 0, "superblock version: later ones bar a file after a kill"
    with h5py.File(path) as file:
        assert file["h5md"].attrs["version"].tolist() == [1, 1]
        assert file["h5md"].attrs["version"].dtype == np.int32
        assert {"author", "creator", "modules"} <= set(file["h5md"])
        group = file["particles/trajectory"]
        assert group["box"].attrs["dimension"] == 3
        assert list(group["box"].attrs["boundary"]) == ["periodic", "periodic", "none"]
        units = {
            "position": "Angstrom",
            "velocity": "Angstrom fs-1",
            "force": "kJ mol-1 Angstrom-1",
            "box/edges": "Angstrom",
        }
        for name, unit in units.items():
            # Fixed-length attributes come back as bytes, and MDAnalysis refuses those.
            assert group[name]["value"].attrs["unit"] == unit
            assert group[name]["step"] == group["position/step"], "step is a hard link"
            assert group[name]["time"] == group["position/time"]
        assert group["position/time"].attrs["unit"] == "fs"
        assert group["position/value"].chunks == (1, 5, 3)
        assert group["species/value"].dtype == np.int16
        np.testing.assert_array_equal(group["species/value"][()], [NUMBERS] * 5)
        given = make_frame(4).forces
        np.testing.assert_allclose(group["force/value"][4], given * EV_KJ_MOL, rtol=6e-8)
        energy = file["observables/trajectory/potential_energy"]
        assert energy["value"].attrs["unit"] == "eV"
        assert energy["step"] == group["position/step"]
        assert "mass" not in group, "ZnH5MD fails on a time-independent mass"
        assert file["parameters/md_gie/mass"].attrs["unit"] == "u"
        assert file["md_gie/n_committed"][()] == 5
        assert file["md_gie/runs"].shape == (1,)


def test_large_frames_are_split_into_chunks(tmp_path: Path) -> None:
    n_atoms = 400_000
    header = TrajectoryHeader(np.ones(n_atoms, int), np.ones(n_atoms), (True, True, True))
    with H5MDWriter.create(tmp_path / "a.h5md", header, TrajectoryOptions()):
        pass
    with h5py.File(tmp_path / "a.h5md") as file:
        chunks = file["particles/trajectory/position/value"].chunks
    assert chunks == (1, 200_000, 3)


def test_importing_needs_no_torch() -> None:
    script = "import sys, md_gie.trajectory; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
