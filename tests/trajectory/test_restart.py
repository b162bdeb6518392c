"""Restart files: bitwise arrays, rotation, and survival of damage."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from md_gie.errors import TrajectoryError
from md_gie.trajectory import RestartFiles

ARRAYS = {"positions": np.random.default_rng(0).normal(size=(7, 3)), "cell": np.eye(3) / 3}


def test_round_trip_is_bitwise(tmp_path: Path) -> None:
    files = RestartFiles(tmp_path / "water.h5md")
    assert files.latest() is None
    path = files.write(40, ARRAYS, {"timestep_fs": 0.1, "numbers": [8, 1, 1]})
    assert path.name == "water.restart-0.npz"
    restart = RestartFiles(tmp_path / "water.h5md").latest()
    assert restart is not None
    assert restart.step == 40
    assert restart.facts == {"timestep_fs": 0.1, "numbers": [8, 1, 1]}
    for name, array in ARRAYS.items():
        assert restart.arrays[name].tobytes() == array.tobytes()


def test_the_older_file_is_replaced(tmp_path: Path) -> None:
    for step in (1, 2, 3, 4, 5):
        # A new object each time: the choice rests on the files, not on memory.
        RestartFiles(tmp_path / "w.h5md").write(step, ARRAYS, {})
        latest = RestartFiles(tmp_path / "w.h5md").latest()
        assert latest is not None
        assert latest.step == step
    steps = sorted(
        int(str(np.load(path)["head"]).split('"step": ')[1].split(",")[0])
        for path in RestartFiles(tmp_path / "w.h5md").existing()
    )
    assert steps == [4, 5]
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
def test_damaged_newer_file_leaves_the_older(tmp_path: Path, damage: str) -> None:
    files = RestartFiles(tmp_path / "w.h5md")
    older, newer = (files.write(step, ARRAYS, {}) for step in (10, 20))
    spoil(newer, damage)
    latest = RestartFiles(tmp_path / "w.h5md").latest()
    assert latest is not None
    assert latest.step == 10
    # The damaged file, not the good one, is what the next write replaces.
    assert RestartFiles(tmp_path / "w.h5md").write(30, ARRAYS, {}) == newer
    spoil(older, damage)
    spoil(newer, damage)
    with pytest.raises(TrajectoryError, match="damaged or not restart files"):
        RestartFiles(tmp_path / "w.h5md").latest()


def spoil(path: Path, damage: str) -> None:
    content = bytearray(path.read_bytes())
    if damage == "truncate":
        content = content[: len(content) // 2]
    elif damage == "flip":
        start = content.index(ARRAYS["positions"].tobytes()[:24])
        content[start + 5] ^= 1
    else:
        content.clear()
    path.write_bytes(content)


def test_unwritable_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrajectoryError, match=r"restart-0.npz could not be written at step 3"):
        RestartFiles(tmp_path / "missing" / "w.h5md").write(3, ARRAYS, {})


HEAD = {"format": 2, "step": 20, "facts": {}}


@pytest.mark.parametrize(
    "head",
    [
        [1],
        "text",
        {"format": 2, "facts": {}},
        {"format": 2, "step": 20},
        HEAD | {"step": "20"},
        HEAD | {"step": -1},
        HEAD | {"step": True},
        HEAD | {"facts": [1]},
        HEAD | {"format": 3},
    ],
)
def test_odd_head_is_damage(tmp_path: Path, head: Any) -> None:
    files = RestartFiles(tmp_path / "w.h5md")
    _, newer = (files.write(step, ARRAYS, {}) for step in (10, 20))
    np.savez(newer, allow_pickle=False, head=np.array(json.dumps(head)), **ARRAYS)
    latest = files.latest()
    assert latest is not None
    assert latest.step == 10
    assert files.damaged == [newer]


@pytest.mark.parametrize("kind", ["no head", "array", "encrypted", "unknown compression"])
def test_odd_archive_is_damage(tmp_path: Path, kind: str) -> None:
    files = RestartFiles(tmp_path / "w.h5md")
    _, newer = (files.write(step, ARRAYS, {}) for step in (10, 20))
    if kind == "no head":
        np.savez(newer, allow_pickle=False, **ARRAYS)
    elif kind == "array":
        with newer.open("wb") as file:
            np.save(file, np.ones(3))
    else:
        content = bytearray(newer.read_bytes())
        place, value = (8, 1) if kind == "encrypted" else (10, 99)
        with zipfile.ZipFile(newer) as archive:
            content[archive.start_dir + place] |= value
        newer.write_bytes(content)
    latest = files.latest()
    assert latest is not None
    assert latest.step == 10


def test_what_the_owner_cannot_use_is_damage(tmp_path: Path) -> None:
    files = RestartFiles(tmp_path / "w.h5md")
    _, newer = (files.write(step, ARRAYS, {"good": step == 10}) for step in (10, 20))
    checked = RestartFiles(tmp_path / "w.h5md", lambda restart: bool(restart.facts["good"]))
    latest = checked.latest()
    assert latest is not None
    assert latest.step == 10
    assert checked.write(30, ARRAYS, {"good": True}) == newer


def test_only_restart_files_are_removed(tmp_path: Path) -> None:
    files = RestartFiles(tmp_path / "w.h5md")
    for step in (1, 2):
        files.write(step, ARRAYS, {})
    foreign = files.paths[1]
    np.savez(foreign, years=np.arange(40))
    before = foreign.read_bytes()
    for content in (before, b"a thesis", b""):
        foreign.write_bytes(content)
        with pytest.raises(TrajectoryError, match=r"w.restart-1.npz is damaged or no restart file"):
            files.remove()
        assert foreign.read_bytes() == content
        assert files.paths[0].exists()
    foreign.unlink()
    files.remove()
    assert not files.existing()


def test_restart_files_of_the_first_format_are_removed(tmp_path: Path) -> None:
    files = RestartFiles(tmp_path / "w.h5md")
    head = json.dumps({"format": 1, "step": 5, "facts": {}})
    np.savez(files.paths[0], head=np.array(head), **ARRAYS)
    with pytest.raises(TrajectoryError, match="not restart files of this version"):
        files.latest()
    files.remove()
    assert not files.existing()
