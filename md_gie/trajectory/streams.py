"""Streams: datasets that grow together, each with a cadence, a count, and checksums of its own."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from md_gie.errors import TrajectoryError
from md_gie.trajectory import layout

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray


class Stream:
    """One stream of a file that is open.

    Parameters
    ----------
    file : h5py.File
    name : str
        One of ``layout.STREAMS``.
    path : Path
        Of the file, for messages.

    Attributes
    ----------
    datasets : dict of str to h5py.Dataset
        In the order in which checksums run over them.
    every : int
        Steps that are multiples of it are written; 0 if the writer's caller decides.
    frame_bytes : int
        What one entry of every dataset takes.
    """

    def __init__(self, file: h5py.File, name: str, path: Path) -> None:
        home = layout.stream_home(name)
        self.name = name
        self._path = path
        self._counter = file[f"{home}/n_committed"]
        self._checksums = file[f"{home}/crc32"]
        self.every = int(self._checksums.attrs.get("every", 0))
        self.datasets = {path: file[path] for path in self._checksums.attrs["elements"]}
        for path, data in self.datasets.items():
            if not isinstance(data, h5py.Dataset):
                raise TypeError(f"/{path} is no dataset")
        # What a look-alike has of another type fails here, inside of files.reading.
        self._steps = self.datasets[layout.step_path(name)]
        self._times = self.datasets[layout.time_path(name)]
        self.frame_bytes = _total(self.datasets, chunks=False)
        self.chunk_bytes = _total(self.datasets, chunks=True)

    @property
    def count(self) -> int:
        """Entries that were written completely."""
        return int(self._counter[()])

    @property
    def steps(self) -> NDArray[np.int64]:
        """Step numbers of committed entries."""
        steps: NDArray[np.int64] = self._steps[: self.count]
        return steps

    @property
    def times_fs(self) -> NDArray[np.float64]:
        """Times of committed entries, fs."""
        times: NDArray[np.float64] = self._times[: self.count]
        return times

    @property
    def length(self) -> int:
        """Entries of the shortest dataset, committed or not."""
        return min(len(data) for data in (*self.datasets.values(), self._checksums))

    def is_due(self, step: int) -> bool:
        """Whether the stream has an entry of a step."""
        return self.every == 0 or step % self.every == 0

    def write(self, entries: list[list[NDArray[Any]]]) -> int:
        """Append entries without counting them; return what the count will be."""
        first = self.count
        last = first + len(entries)
        for column, data in enumerate(self.datasets.values()):
            data.resize(last, axis=0)
            data[first:last] = np.stack([entry[column] for entry in entries])
        self._checksums.resize(last, axis=0)
        self._checksums[first:last] = [checksum(entry) for entry in entries]
        return last

    def set_count(self, count: int) -> None:
        """Count entries as written completely."""
        self._counter[()] = count

    def shorten(self, count: int) -> None:
        """Drop everything beyond the first ``count`` entries, which are counted already."""
        for data in (*self.datasets.values(), self._checksums):
            data.resize(count, axis=0)

    def verify(self, entries: Iterable[int]) -> None:
        """Compare entries with their checksums.

        Raises
        ------
        TrajectoryError
            Naming the first one that differs or cannot be read.
        """
        for number in entries:
            try:
                found = checksum(data[number] for data in self.datasets.values())
                same = found == self._checksums[number]
            except (OSError, ValueError, IndexError):
                same = False
            if not same:
                what = "frame" if self.name == layout.FRAMES else f"{self.name} entry"
                raise TrajectoryError(
                    f"{self._path}: {what} {number} differs from its checksum, so the file was "
                    "damaged after it was written; what comes before it can still be read",
                    path=self._path,
                    frame=number,
                )


def streams_of(file: h5py.File, path: Path) -> dict[str, Stream]:
    """Return the streams of a file, that of frames first."""
    names = [name for name in layout.STREAMS if layout.stream_home(name) in file]
    return {name: Stream(file, name, path) for name in names}


def checksum(entries: Iterable[NDArray[Any]]) -> int:
    """CRC32 over one entry of each dataset, as they are stored."""
    value = 0
    for entry in entries:
        value = zlib.crc32(entry.tobytes(), value)
    return value


def _total(datasets: dict[str, h5py.Dataset], *, chunks: bool) -> int:
    return sum(
        data.dtype.itemsize * int(np.prod(data.chunks if chunks else data.shape[1:]))
        for data in datasets.values()
    )
