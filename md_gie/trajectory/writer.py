"""H5MD writer: buffered frames, two-phase commit, recovery after a kill."""

from __future__ import annotations

import contextlib
import json
import math
import os
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import h5py
import numpy as np

from md_gie.errors import TrajectoryError
from md_gie.trajectory import files, layout

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    file : h5py.File
        Open for writing, with the layout of :mod:`md_gie.trajectory.layout`.
    fsync : bool
        Force each commit to the disk.

    Notes
    -----
    Made by :meth:`create` or :meth:`open_existing`; usable as a context manager.
    """

    def __init__(self, file: h5py.File, *, fsync: bool = False) -> None:
        self.path = Path(file.filename).resolve()
        self.n_committed = files.committed(file)
        self._file = file
        self._datasets = files.growing(file)
        self._checksums = file[layout.CHECKSUMS]
        self._fsync = fsync
        self._buffer: list[list[np.ndarray[Any, Any]]] = []
        self._species = np.asarray(file[f"{layout.PARAMETERS}/numbers"][()])
        self._force_factor = files.force_factor(file)
        self._frame_bytes = sum(
            data.dtype.itemsize * math.prod(data.shape[1:]) for data in self._datasets.values()
        )
        self._chunk_bytes = sum(
            data.dtype.itemsize * math.prod(data.chunks) for data in self._datasets.values()
        )
        self._capacity = max(1, min(_BUFFER_BYTES // self._frame_bytes, _MOST_BUFFERED))
        files.claim(self.path)

    @classmethod
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
            trajectory of md_gie, or if another writer has it open.
        """
        path = Path(path)
        files.refuse_second_writer(path)
        if path.exists() and overwrite:
            files.refuse_to_replace(path)
            path.unlink()
        try:
            file = h5py.File(path, "x", libver=layout.LIBRARY_VERSIONS)
        except FileExistsError as error:
            raise TrajectoryError(
                f"{path} exists and is not overwritten unasked; name another file or move it away",
                path=path,
            ) from error
        try:
            files.reserve(file, _METADATA_BYTES)
            layout.create_tree(file, header, options)
            writer = cls(file, fsync=options.fsync)
        except BaseException:
            file.close()
            path.unlink()
            raise
        writer._record_run(start_step=0)
        return writer

    @classmethod
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
        file = files.open_file(path, "r+")
        try:
            count = files.committed(file)
            files.verify(file, range(max(0, count - _MOST_BUFFERED), count))
            steps = file[layout.STEP][:count]
            if last_step is not None:
                count = int(np.searchsorted(steps, last_step, side="right"))
            files.truncate(file, count)
        except BaseException:
            file.close()
            raise
        writer = cls(file, fsync=fsync)
        start = int(steps[count - 1]) if last_step is None and count else last_step
        writer._record_run(start_step=start or 0)
        return writer

    def append(self, frame: Frame) -> None:
        """Add a frame; it is safe once :meth:`commit` has run, which a full buffer triggers.

        Raises
        ------
        TrajectoryError
            If the frame lacks what the file holds, has another shape, or the disk is full.
        """
        entries = []
        for path, data in self._datasets.items():
            entry = np.asarray(self._entry(path, frame), dtype=data.dtype)
            if entry.shape != data.shape[1:]:
                raise TrajectoryError(
                    f"{self.path}: /{path} holds entries of shape {data.shape[1:]} and the frame "
                    f"of step {frame.step} has {entry.shape}",
                    step=frame.step,
                )
            entries.append(entry.copy())
        self._buffer.append(entries)
        if len(self._buffer) >= self._capacity:
            self.commit()

    def commit(self) -> int:
        """Write what is buffered and return how many frames the file holds for certain.

        Raises
        ------
        TrajectoryError
            If the disk is full or fails; the frames committed before stay readable.
        """
        if not self._buffer:
            return self.n_committed
        first, last = self.n_committed, self.n_committed + len(self._buffer)
        size = self._frame_bytes * len(self._buffer) + self._chunk_bytes + _METADATA_BYTES
        try:
            files.reserve(self._file, size)
            for column, data in enumerate(self._datasets.values()):
                data.resize(last, axis=0)
                data[first:last] = np.stack([entries[column] for entries in self._buffer])
            self._checksums.resize(last, axis=0)
            self._checksums[first:last] = [files.checksum(entries) for entries in self._buffer]
            self._flush()
            self._file[layout.COMMITTED][()] = last
            self._flush()
        except (OSError, RuntimeError) as error:
            with contextlib.suppress(TrajectoryError):
                self._abandon()
            raise TrajectoryError(
                f"{self.path}: writing frames {first} to {last - 1} failed ({error}); "
                f"the {first} frames committed before are intact",
                n_committed=first,
            ) from error
        self.n_committed = last
        self._buffer.clear()
        return last

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

    def _entry(self, path: str, frame: Frame) -> Any:
        if path.startswith(layout.OBSERVABLES):
            name = path.split("/")[-2]
            if name in frame.observables:
                return frame.observables[name]
        elif path == f"{layout.PARTICLES}/species/value":
            return self._species
        elif path == f"{layout.PARTICLES}/force/value":
            if frame.forces is not None:
                return np.multiply(frame.forces, self._force_factor, dtype=np.float64)
        else:
            value = getattr(frame, _FRAME_FIELDS[path])
            if value is not None:
                return value
        raise TrajectoryError(
            f"{self.path} holds /{path} and the frame of step {frame.step} has none",
            step=frame.step,
        )

    def _record_run(self, *, start_step: int) -> None:
        runs = self._file[layout.RUNS]
        runs.resize(len(runs) + 1, axis=0)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        runs[-1] = (start_step, now.encode(), version("md_gie").encode())
        self._flush()

    def _flush(self) -> None:
        self._file.flush()
        if self._fsync:
            os.fsync(self._file.id.get_vfd_handle())

    def _abandon(self) -> None:
        self._buffer.clear()
        files.release(self.path)
        try:
            self._file.close()
        except (OSError, RuntimeError) as error:
            raise TrajectoryError(f"{self.path} could not be closed: {error}") from error


_FRAME_FIELDS = {
    layout.STEP: "step",
    layout.TIME: "time_fs",
    f"{layout.BOX}/edges/value": "cell",
    f"{layout.PARTICLES}/position/value": "positions",
    f"{layout.PARTICLES}/velocity/value": "velocities",
}
