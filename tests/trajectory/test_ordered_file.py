"""Every moment between two writes of the system leaves a file with all committed frames."""

import errno
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from md_gie.errors import TrajectoryError
from md_gie.trajectory import Frame, H5MDReader, H5MDWriter, TrajectoryHeader, TrajectoryOptions
from md_gie.trajectory.ordered_file import OrderedFile

HEADER = TrajectoryHeader(np.array([8]), np.array([16.0]), (True, True, True))
OPTIONS = TrajectoryOptions(velocities=False, forces=False, species_series=False)
DRAIN = 64  # frames of one commit
LEVEL = 5  # where a node of an index says how far above the leaves it is


@dataclass
class Change:
    """One write of the system, or a change of length if there are no bytes."""

    offset: int
    data: bytes
    size: int  # of the file after it

    @property
    def node_level(self) -> int:
        return self.data[LEVEL] if self.data.startswith(b"TREE") else -1

    def apply(self, image: bytearray) -> None:
        image[self.offset : self.offset + len(self.data)] = self.data
        del image[self.size :]
        image.extend(bytes(self.size - len(image)))


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> list[Change]:
    """All that is written to the disk from here on."""
    made: list[Change] = []
    write = OrderedFile._write_whole
    flush = OrderedFile.flush

    def size(file: OrderedFile) -> int:
        return Path(str(file.name)).stat().st_size

    def recording_write(self: OrderedFile, data: Any) -> None:
        before, offset = size(self), self.tell()
        made.append(Change(0, b"", before))
        write(self, data)
        made.append(Change(offset, bytes(data), size(self)))

    def recording_flush(self: OrderedFile) -> None:
        flush(self)
        made.append(Change(0, b"", size(self)))

    monkeypatch.setattr(OrderedFile, "_write_whole", recording_write)
    monkeypatch.setattr(OrderedFile, "flush", recording_flush)
    return made


def frame(step: int) -> Frame:
    return Frame(step, 0.5 * step, np.eye(3) * 9.0, np.full((1, 3), float(step)))


def assert_holds(file: Any, acknowledged: int) -> None:
    with h5py.File(file, "r") as opened:
        count = int(opened["md_gie/n_committed"][()])
        assert count >= acknowledged
        expected = np.arange(count)
        group = opened["particles/trajectory/position"]
        np.testing.assert_array_equal(group["step"][:count], expected)
        # All of the nodes that were split last, some of the others: each has 32 entries or more.
        for part in slice(0, count, 16), slice(max(0, count - 3 * DRAIN), count):
            np.testing.assert_array_equal(group["value"][part, 0, 2], expected[part])


def drains(path: Path, changes: list[Change], n_frames: int) -> Iterator[tuple[int, list[Change]]]:
    """Frames acknowledged before each commit, and what the commit wrote."""
    with H5MDWriter.create(path, HEADER, OPTIONS) as writer:
        yield 0, changes[:]
        for first in range(0, n_frames, DRAIN):
            changes.clear()
            for step in range(first, first + DRAIN):
                writer.append(frame(step))
            assert writer.n_committed == first + DRAIN
            yield first, changes[:]


def test_each_moment_of_a_commit_leaves_what_was_committed(
    tmp_path: Path, changes: list[Change]
) -> None:
    # One chunk a frame: the index of positions gets its second level at frame 65, its third
    # beyond 2048. Commits at which an index grows upwards are looked at write by write, others
    # after each node: a leaf that is split gives entries to the next.
    path, moment = tmp_path / "a.h5md", tmp_path / "moment.h5md"
    image = bytearray()
    levels, moments = {-1}, 0
    for acknowledged, written in drains(path, changes, 64 * DRAIN):
        grown = {change.node_level for change in written} - levels
        levels |= grown
        for change in written:
            change.apply(image)
            if acknowledged and (grown or change.node_level >= 0):
                moment.write_bytes(image)
                assert_holds(moment, acknowledged)
                moments += 1
    assert image == path.read_bytes()
    assert levels == {-1, 0, 1, 2}
    assert moments > 300


def test_recovery_can_be_killed_too(tmp_path: Path, changes: list[Change]) -> None:
    path, moment = tmp_path / "a.h5md", tmp_path / "moment.h5md"
    for _ in drains(path, changes, 3 * DRAIN):
        pass
    image = bytearray(path.read_bytes())
    changes.clear()
    with H5MDWriter.open_existing(path, last_step=99) as writer:
        recovered = len(changes)
        for step in range(100, 100 + DRAIN):
            writer.append(frame(step))
    assert len(changes) > recovered > 10
    for change in changes:
        change.apply(image)
        moment.write_bytes(image)
        assert_holds(moment, 100)
    assert image == path.read_bytes()


@pytest.mark.parametrize("part", ["write", "flush"])
def test_interrupt_while_writing_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    path = tmp_path / "a.h5md"
    called = getattr(OrderedFile, part)
    interrupts = 0

    def interrupted(self: OrderedFile, *arguments: Any) -> Any:
        nonlocal interrupts
        interrupts += 1
        signal.raise_signal(signal.SIGINT)
        return called(self, *arguments)

    writer = H5MDWriter.create(path, HEADER, OPTIONS)
    for step in range(100):
        writer.append(frame(step))
    monkeypatch.setattr(OrderedFile, part, interrupted)
    with writer:
        with pytest.raises(KeyboardInterrupt):
            writer.commit()
        assert interrupts
        monkeypatch.undo()
        writer.append(frame(100))
    assert_holds(path, 101)


def test_failing_disk_ends_with_a_sentence_and_a_closed_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.h5md"

    def fail(self: OrderedFile, data: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    writer = H5MDWriter.create(path, HEADER, OPTIONS)
    for step in range(100):
        writer.append(frame(step))
    monkeypatch.setattr(OrderedFile, "_write_whole", fail)
    with pytest.raises(TrajectoryError, match=r"writing after frame 63 failed .*64 frames"):
        writer.commit()
    monkeypatch.undo()
    writer.close()
    assert_holds(path, DRAIN)
    H5MDWriter.open_existing(path).close()


@pytest.mark.parametrize("end", ["", "del writer", "raise SystemExit", "1 / 0"])
def test_writer_that_is_never_closed_ends_quietly(tmp_path: Path, end: str) -> None:
    path = tmp_path / "a.h5md"
    script = f"""
from pathlib import Path
import numpy as np
from md_gie.trajectory import *
header = TrajectoryHeader(np.array([8]), np.array([16.0]), (True, True, True))
options = TrajectoryOptions(velocities=False, forces=False, species_series=False)
writer = H5MDWriter.create({str(path)!r}, header, options)
for step in range(70):
    writer.append(Frame(step, 0.5 * step, np.eye(3) * 9.0, np.full((1, 3), float(step))))
{end}
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert process.returncode == ("1 / 0" in end)
    assert ("Error" in process.stderr) == ("1 / 0" in end)
    assert_holds(path, DRAIN)
    with H5MDReader(path) as reader:
        reader.verify()
