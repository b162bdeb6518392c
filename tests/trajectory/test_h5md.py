"""H5MD files: layout as other programs expect it, frames as they were given, refusals."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from md_gie.errors import TrajectoryError
from md_gie.trajectory import (
    Frame,
    H5MDReader,
    H5MDWriter,
    Observable,
    TrajectoryHeader,
    TrajectoryOptions,
)
from md_gie.trajectory import writer as writer_module
from md_gie.trajectory.describe import describe_trajectory
from md_gie.units import EV_KJ_MOL

NUMBERS = np.array([8, 1, 1, 8, 1])
HEADER = TrajectoryHeader(
    NUMBERS, np.array([15.999, 1.008, 1.008, 15.999, 1.008]), (True, True, False), {"config": "{}"}
)
OPTIONS = TrajectoryOptions(
    (Observable("potential_energy", "eV"), Observable("stress", "eV", (3, 3)))
)


def make_frame(step: int, **changes: Any) -> Frame:
    rng = np.random.default_rng(step)
    cell = np.array([[9.0, 0.0, 0.0], [1.5, 8.0, 0.0], [0.2, 0.4, 7.0]]) + step
    fields: dict[str, Any] = {
        "step": step,
        "time_fs": 0.5 * step,
        "cell": cell,
        "positions": rng.normal(size=(5, 3)) * 10,
        "velocities": rng.normal(size=(5, 3)) * 0.01,
        "forces": rng.normal(size=(5, 3)),
        "observables": {"potential_energy": -step / 3, "stress": rng.normal(size=(3, 3))},
    }
    return Frame(**(fields | changes))


def write(path: Path, steps: range, options: TrajectoryOptions = OPTIONS) -> Path:
    with H5MDWriter.create(path, HEADER, options) as writer:
        for step in steps:
            writer.append(make_frame(step))
    return path


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


def test_existing_file_is_not_overwritten_unasked(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5md", range(3))
    before = path.read_bytes()
    with pytest.raises(TrajectoryError, match="is not overwritten unasked"):
        H5MDWriter.create(path, HEADER, OPTIONS)
    assert path.read_bytes() == before
    with H5MDWriter.create(path, HEADER, OPTIONS, overwrite=True):
        pass
    with H5MDReader(path) as reader:
        assert len(reader) == 0


@pytest.mark.parametrize("attempt", ["create", "append", "read"])
def test_second_writer_in_another_process_is_refused(tmp_path: Path, attempt: str) -> None:
    path = tmp_path / "a.h5md"
    actions = {
        "create": "t.H5MDWriter.create(p, None, None, overwrite=True)",
        "append": "t.H5MDWriter.open_existing(p)",
        "read": "t.H5MDReader(p)",
    }
    script = f"import sys, md_gie.trajectory as t; p = sys.argv[1]; {actions[attempt]}"
    with H5MDWriter.create(path, HEADER, OPTIONS) as writer:
        writer.append(make_frame(0))
        writer.commit()
        done = subprocess.run(
            [sys.executable, "-c", script, path], capture_output=True, text=True, check=False
        )
        assert "TrajectoryError" in done.stderr
        assert "in use by another process" in done.stderr
        writer.append(make_frame(1))
    with H5MDReader(path) as reader:
        assert len(reader) == 2
        reader.verify()


def test_second_writer_in_this_process_is_refused(tmp_path: Path) -> None:
    with H5MDWriter.create(tmp_path / "a.h5md", HEADER, OPTIONS):
        with pytest.raises(TrajectoryError, match="already open for writing"):
            H5MDWriter.open_existing(tmp_path / "a.h5md")
        with pytest.raises(TrajectoryError, match="already open for writing"):
            H5MDWriter.create(tmp_path / "a.h5md", HEADER, OPTIONS, overwrite=True)


def test_append_goes_on_where_the_file_ends(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5md", range(10))
    with H5MDWriter.open_existing(path) as writer:
        writer.append(make_frame(10))
    with H5MDWriter.open_existing(path, last_step=7) as writer:
        assert writer.n_committed == 8
        writer.append(make_frame(8))
    with H5MDReader(path) as reader:
        assert reader.steps.tolist() == list(range(9))
        assert [run["start_step"] for run in reader.runs] == [0, 9, 7]
        reader.verify()


def test_tail_beyond_the_commit_is_dropped(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5md", range(10))
    with h5py.File(path, "r+", libver=("earliest", "v110")) as file:
        file["md_gie/n_committed"][()] = 6
        file["particles/trajectory/position/value"].resize(8, axis=0)
    with H5MDReader(path) as reader:
        assert len(reader) == 6
    with H5MDWriter.open_existing(path) as writer:
        writer.append(make_frame(6))
    with H5MDReader(path) as reader:
        assert reader.steps.tolist() == list(range(7))
        reader.verify()


def test_damage_is_named_and_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5md", range(10))
    with h5py.File(path, "r+", libver=("earliest", "v110")) as file:
        file["particles/trajectory/position/value"][4, 2, 1] += 1e-3
    with pytest.raises(TrajectoryError, match="frame 4 differs from its checksum"):
        H5MDWriter.open_existing(path)
    with H5MDReader(path) as reader, pytest.raises(TrajectoryError, match="frame 4"):
        reader.verify()


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"not hdf5 at all", "cannot be read as HDF5"), (None, "no such trajectory")],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "a.h5md"
    if content is not None:
        path.write_bytes(content)
    for opener in (H5MDReader, H5MDWriter.open_existing):
        with pytest.raises(TrajectoryError, match=message):
            opener(path)


def test_foreign_hdf5_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = 1
    with pytest.raises(TrajectoryError, match="not a trajectory of md_gie"):
        H5MDReader(tmp_path / "a.h5")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"forces": None}, "holds /particles/trajectory/force/value"),
        ({"positions": np.zeros((4, 3))}, "has \\(4, 3\\)"),
        ({"observables": {"potential_energy": 1.0}}, "holds /observables/trajectory/stress/value"),
    ],
)
def test_incomplete_frame_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with H5MDWriter.create(tmp_path / "a.h5md", HEADER, OPTIONS) as writer:
        writer.append(make_frame(0))
        with pytest.raises(TrajectoryError, match=message):
            writer.append(make_frame(1, **changes))
    with H5MDReader(tmp_path / "a.h5md") as reader:
        assert len(reader) == 1


def test_buffer_is_bounded_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "_BUFFER_BYTES", 1000)
    with H5MDWriter.create(tmp_path / "a.h5md", HEADER, OPTIONS) as writer:
        counts = []
        for step in range(6):
            writer.append(make_frame(step))
            counts.append(writer.n_committed)
    # 60 + 60 + 60 + 10 bytes of atoms, 72 + 8 of observables, 72 + 16 of box, step and time.
    assert counts == [0, 2, 2, 4, 4, 6]


def test_importing_needs_no_torch() -> None:
    script = "import sys, md_gie.trajectory; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("kind", ["text", "other HDF5", "folder"])
def test_overwrite_spares_what_is_no_trajectory(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "thesis.tex"
    if kind == "folder":
        path.mkdir()
    elif kind == "text":
        path.write_text("years of work")
    else:
        with h5py.File(path, "w") as file:
            file["years"] = 3
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(TrajectoryError, match="it is not overwritten: move it away"):
        H5MDWriter.create(path, HEADER, OPTIONS, overwrite=True)
    assert path.is_dir() if kind == "folder" else path.read_bytes() == before


def test_overwrite_replaces_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "a.h5md"
    path.touch()
    H5MDWriter.create(path, HEADER, OPTIONS, overwrite=True).close()
    with H5MDReader(path) as reader:
        assert len(reader) == 0


LOOKALIKES = {
    "group for the count": ("md_gie/n_committed", "group"),
    "text for the count": ("md_gie/n_committed", "text"),
    "group for checksums": ("md_gie/crc32", "group"),
    "data for checksums": ("md_gie/crc32", [1, 2, 3]),
    "count too large": ("md_gie/n_committed", 4),
    "count negative": ("md_gie/n_committed", -1),
    "no parameters": ("parameters", None),
    "no numbers": ("parameters/md_gie/numbers", None),
    "no such element": ("parameters/md_gie/numbers", [8, 1, 1, 8, 0]),
    "one mass": ("parameters/md_gie/mass", [1.0]),
    "no starts": ("md_gie/runs", None),
    "numbers for starts": ("md_gie/runs", [1, 2]),
    "no box": ("particles/trajectory/box", None),
    "group for positions": ("particles/trajectory/position/value", "group"),
    "no positions": ("particles/trajectory/position/value", None),
    "flat positions": ("particles/trajectory/position/value", [1.0, 2.0, 3.0]),
    "text for times": ("particles/trajectory/position/time", ["a", "b", "c"]),
    "group for steps": ("particles/trajectory/position/step", "group"),
    "group for forces": ("particles/trajectory/force/value", "group"),
    "observables are data": ("observables/trajectory", [1.0]),
    "observable is empty": ("observables/trajectory/stress", "group"),
}


@pytest.mark.parametrize("case", LOOKALIKES)
def test_lookalikes_get_one_sentence(tmp_path: Path, case: str) -> None:
    path = write(tmp_path / "a.h5md", range(3))
    name, content = LOOKALIKES[case]
    with h5py.File(path, "r+") as file:
        del file[name]
        if content == "group":
            file.create_group(name)
        elif content is not None:
            file[name] = content
    with pytest.raises(TrajectoryError, match=r"a.h5md is not laid out as a trajectory"):
        describe_trajectory(path)
    with pytest.raises(TrajectoryError):
        H5MDWriter.open_existing(path)
    # Nothing holds the file any more.
    with h5py.File(path, "r+"):
        pass


@pytest.mark.parametrize(
    ("name", "value"), [("versions", "not JSON"), ("versions", 3), ("surroundings", "[1]")]
)
def test_odd_metadata_gets_one_sentence(tmp_path: Path, name: str, value: Any) -> None:
    path = write(tmp_path / "a.h5md", range(3))
    with h5py.File(path, "r+") as file:
        file["parameters/md_gie"].attrs[name] = value
    with pytest.raises(TrajectoryError, match="not laid out as a trajectory"):
        describe_trajectory(path)


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("particles/trajectory/box", "boundary"),
        ("particles/trajectory/force/value", "unit"),
        ("observables/trajectory/stress/value", "unit"),
        ("md_gie/crc32", "elements"),
    ],
)
def test_missing_attribute_gets_one_sentence(tmp_path: Path, name: str, attribute: str) -> None:
    path = write(tmp_path / "a.h5md", range(3))
    with h5py.File(path, "r+") as file:
        del file[name].attrs[attribute]
    with pytest.raises(TrajectoryError, match="not laid out as a trajectory"):
        describe_trajectory(path)


@pytest.mark.parametrize("signature", [b"HEAP", b"TREE", b"SNOD"])
def test_broken_index_gets_one_sentence(tmp_path: Path, signature: bytes) -> None:
    path = write(tmp_path / "a.h5md", range(3))
    content = path.read_bytes()
    assert signature in content
    path.write_bytes(content.replace(signature, b"XXXX"))
    with pytest.raises(TrajectoryError, match=r"not laid out as a trajectory|cannot be read"):
        describe_trajectory(path)
    with pytest.raises(TrajectoryError, match=r"not laid out as a trajectory|cannot be read"):
        H5MDWriter.open_existing(path)


def test_summaries_of_every_process_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5md", range(3))
    for count in (1, 2):
        with H5MDWriter.open_existing(path) as writer:
            writer.append(make_frame(2 + count))
            writer.record_summary({"n_steps": count, "milliseconds": {"model": 1.5}})
            assert writer.n_committed == 3 + count
    with H5MDReader(path) as reader:
        assert reader.summaries == [
            {"n_steps": 1, "milliseconds": {"model": 1.5}},
            {"n_steps": 2, "milliseconds": {"model": 1.5}},
        ]
        reader.verify()


@pytest.mark.parametrize("text", ["not JSON", "3", "[3]"])
def test_odd_summaries_get_one_sentence(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "a.h5md", range(3))
    with h5py.File(path, "r+") as file:
        file["md_gie"].attrs["summaries"] = text
    with H5MDReader(path) as reader, pytest.raises(TrajectoryError, match="not laid out"):
        assert reader.summaries
