"""Writing: nothing is overwritten, one writer at a time, going on where a file ends."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from md_gie.errors import TrajectoryError
from md_gie.trajectory import H5MDReader, H5MDWriter
from md_gie.trajectory import writer as writer_module
from tests.trajectory.conftest import HEADER, OPTIONS, make_frame, write


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"forces": None}, "holds /particles/trajectory/force/value"),
        ({"positions": np.zeros((4, 3))}, "has \\(4, 3\\)"),
        (
            {"observables": {"potential_energy": 1.0}},
            "holds /observables/trajectory/temperature/value",
        ),
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
    # 60 + 60 + 60 + 10 bytes of atoms, 72 + 8 + 8 of observables, 72 + 16 of box, step and time.
    assert counts == [0, 2, 2, 4, 4, 6]


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
