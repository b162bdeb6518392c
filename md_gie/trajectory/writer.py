"""H5MD writer: buffered frames, two-phase commit, recovery after a kill."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from md_gie.errors import TrajectoryError
from md_gie.trajectory import files, layout
from md_gie.trajectory.ordered_file import OrderedFile, without_interrupt
from md_gie.trajectory.streams import Stream, streams_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import h5py

    from md_gie.trajectory.layout import Frame, TrajectoryHeader, TrajectoryOptions

_BUFFER_BYTES = 16 * 10**6
_MOST_BUFFERED = 64
_METADATA_BYTES = 2**18  # more than the indices of one commit take


class H5MDWriter:
    """Append frames to an H5MD 1.1 file, so that a kill at any moment loses no committed frame.

    Frames are buffered and committed together: first all data and their checksums are flushed,
    then the count of committed frames is raised and flushed alone. Whatever lies beyond that
    count when the process dies is dropped by :meth:`open_existing`.

    Parameters
    ----------
    path : Path
    disk : OrderedFile
        What ``file`` writes through; it is closed with it.
    file : h5py.File
        With the layout of :mod:`md_gie.trajectory.layout`.

    Notes
    -----
    Made by :meth:`create` or :meth:`open_existing`; usable as a context manager.
    """

    def __init__(self, path: Path, disk: OrderedFile, file: h5py.File) -> None:
        self.path = path.resolve()
        self._disk = disk
        self._file = file
        self._streams = streams_of(file, path)
        self.n_committed = self._streams[layout.FRAMES].count
        self._buffers: dict[str, list[list[np.ndarray[Any, Any]]]] = {}
        self._species = np.asarray(file[f"{layout.PARAMETERS}/numbers"][()])
        self._force_factor = files.force_factor(file)
        self._waiting_bytes = 0
        self._waiting_entries = 0
        files.claim(self.path)

    @classmethod
    @without_interrupt()
    def create(
        cls,
        path: str | Path,
        header: TrajectoryHeader,
        options: TrajectoryOptions,
        *,
        overwrite: bool = False,
    ) -> Self:
        """Start a new file.

        Raises
        ------
        TrajectoryError
            If the file exists and ``overwrite`` is false, or if it is neither empty nor a
            trajectory of md_gie, or if another writer has it open, or if the disk is full.
        """
        path = Path(path)
        files.refuse_second_writer(path)
        if path.exists() and overwrite:
            files.refuse_to_replace(path)
            path.unlink()
        try:
            disk, file = files.create(path, fsync=options.fsync)
        except FileExistsError as error:
            raise files.exists_already(path) from error
        try:
            files.reserve(disk, file, _METADATA_BYTES)
            layout.create_tree(file, header, options)
            writer = cls(path, disk, file)
            writer._record_run(start_step=0)
        except BaseException as error:
            files.abandon(path, disk, file)
            path.unlink()
            files.explain(path, error)
            raise
        return writer

    @classmethod
    @without_interrupt()
    def open_existing(
        cls, path: str | Path, *, last_step: int | None = None, fsync: bool = False
    ) -> Self:
        """Open a file to append, after dropping what was not committed.

        Parameters
        ----------
        path : str or Path
        last_step : int, optional
            Frames of later steps are dropped too: where a restart file lets the run go on.
        fsync : bool
            Force each commit to the disk.

        Raises
        ------
        TrajectoryError
            If the file is missing, foreign, in use, or damaged: the checksums of the frames that
            one commit may have held are compared.
        """
        path = Path(path)
        files.refuse_second_writer(path)
        disk, file = files.open_to_write(path, fsync=fsync)
        try:
            streams = streams_of(file, path)
            counts = {name: stream.count for name, stream in streams.items()}
            for name, stream in streams.items():
                stream.verify(range(max(0, counts[name] - _MOST_BUFFERED), counts[name]))
                if last_step is not None:
                    counts[name] = int(np.searchsorted(stream.steps, last_step, side="right"))
            start = _last_step(streams) if last_step is None else last_step
            # Counts go first: a kill in between must not leave one above what there is.
            for name, stream in streams.items():
                stream.set_count(counts[name])
            file.flush()
            for name, stream in streams.items():
                stream.shorten(counts[name])
            file.close()
            file = files.reopen(path, disk)  # HDF5 has forgotten what it could use again
            writer = cls(path, disk, file)
            writer._record_run(start_step=start)
        except BaseException as error:
            files.abandon(path, disk, file)
            files.explain(path, error)
            raise
        return writer

    def due(self, step: int) -> frozenset[str]:
        """Streams that have an entry of a step: ``frames``, and those with their own cadence."""
        return frozenset(name for name, stream in self._streams.items() if stream.is_due(step))

    def append(self, frame: Frame) -> None:
        """Add what is due of a frame; it is safe once :meth:`commit` has run, or a buffer is full.

        Raises
        ------
        TrajectoryError
            If the frame lacks what the file holds, has another shape, or the disk is full.
        """
        made = {name: self._entries(self._streams[name], frame) for name in self.due(frame.step)}
        for name, entries in made.items():
            self._buffers.setdefault(name, []).append(entries)
            self._waiting_bytes += self._streams[name].frame_bytes
            self._waiting_entries = max(self._waiting_entries, len(self._buffers[name]))
        largest = sum(self._streams[name].frame_bytes for name in made)
        if self._waiting_bytes + largest > _BUFFER_BYTES or self._waiting_entries >= _MOST_BUFFERED:
            self.commit()

    @without_interrupt()
    def commit(self) -> int:
        """Write what is buffered and return how many frames the file holds for certain.

        Raises
        ------
        TrajectoryError
            If the disk is full or fails; what was committed before stays readable.
        """
        if not self._buffers:
            return self.n_committed
        filled = {self._streams[name]: entries for name, entries in self._buffers.items()}
        size = self._waiting_bytes + sum(stream.chunk_bytes for stream in filled)
        try:
            files.reserve(self._disk, self._file, size + _METADATA_BYTES)
            counts = {stream: stream.write(entries) for stream, entries in filled.items()}
            self._flush()
            for stream, count in counts.items():
                stream.set_count(count)
            self._flush()
        except (OSError, RuntimeError) as error:
            with contextlib.suppress(TrajectoryError):
                self._abandon()
            raise TrajectoryError(
                f"{self.path}: writing after frame {self.n_committed - 1} failed ({error}); "
                f"the {self.n_committed} frames committed before are intact",
                n_committed=self.n_committed,
            ) from error
        self.n_committed = counts.get(self._streams[layout.FRAMES], self.n_committed)
        self._forget()
        return self.n_committed

    @without_interrupt()
    def record_summary(self, summary: Mapping[str, Any]) -> None:
        """Commit, and keep what this process made of its part of the run.

        Parameters
        ----------
        summary : mapping of str to JSON value
            For example speed and time by part; shown by ``md-gie info`` and in reports.
        """
        self.commit()
        attributes = self._file[layout.COMMITTED].parent.attrs
        earlier = json.loads(attributes.get(layout.SUMMARIES, "[]"))
        attributes[layout.SUMMARIES] = json.dumps([*earlier, dict(summary)])
        self._flush()

    @without_interrupt()
    def close(self) -> None:
        """Commit and close; closing twice is harmless."""
        if self._file:
            try:
                self.commit()
            finally:
                self._abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _entries(self, stream: Stream, frame: Frame) -> list[np.ndarray[Any, Any]]:
        entries = []
        for path, data in stream.datasets.items():
            entry = np.asarray(self._entry(path, frame), dtype=data.dtype)
            if entry.shape != data.shape[1:]:
                raise TrajectoryError(
                    f"{self.path}: /{path} holds entries of shape {data.shape[1:]} and the frame "
                    f"of step {frame.step} has {entry.shape}",
                    step=frame.step,
                )
            entries.append(entry.copy())
        return entries

    def _entry(self, path: str, frame: Frame) -> Any:
        group, name = path.split("/")[-2:]
        if name in ("step", "time"):
            return frame.step if name == "step" else frame.time_fs
        if path.startswith((layout.OBSERVABLES, layout.FINE)):
            value = frame.observables.get(group)
        elif group == "species":
            value = self._species
        elif group == "force" and frame.forces is not None:
            value = np.multiply(frame.forces, self._force_factor, dtype=np.float64)
        else:
            value = getattr(frame, _FRAME_FIELDS[group])
        if value is None:
            raise TrajectoryError(
                f"{self.path} holds /{path} and the frame of step {frame.step} has none",
                step=frame.step,
            )
        return value

    def _record_run(self, *, start_step: int) -> None:
        runs = self._file[layout.RUNS]
        runs.resize(len(runs) + 1, axis=0)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        runs[-1] = (start_step, now.encode(), version("md_gie").encode())
        self._flush()

    def _flush(self) -> None:
        self._file.flush()
        if self._disk.failure is not None:
            raise self._disk.failure

    def _forget(self) -> None:
        self._buffers.clear()
        self._waiting_bytes = self._waiting_entries = 0

    def _abandon(self) -> None:
        self._forget()
        files.release(self.path)
        try:
            files.close(self._disk, self._file)
        except (OSError, RuntimeError) as error:
            raise TrajectoryError(f"{self.path} could not be closed: {error}") from error


_FRAME_FIELDS = {
    "edges": "cell",
    "position": "positions",
    "velocity": "velocities",
    "force": "forces",
}


def _last_step(streams: dict[str, Stream]) -> int:
    return max((int(stream.steps[-1]) for stream in streams.values() if stream.count), default=0)
