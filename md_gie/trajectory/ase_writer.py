"""Writing trajectories as extended XYZ and as ASE's ``.traj``, with all that H5MD files have."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import numpy as np
from ase.io.extxyz import write_extxyz
from ase.io.trajectory import TrajectoryWriter as ASETrajectoryWriter

from md_gie.errors import TrajectoryError
from md_gie.trajectory import files, layout
from md_gie.trajectory.ase_io import to_atoms
from md_gie.trajectory.ase_reader import RECORD, ASEReader
from md_gie.trajectory.layout import Frame, TrajectoryHeader, TrajectoryOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_WAITING = 64


class ASEWriter:
    """Append frames to an extended XYZ or ``.traj`` file.

    Made by :meth:`create` or :meth:`open_existing`; usable as a context manager. A frame is
    safe from a kill once :meth:`commit` has run. What these formats lack: cadences of observables
    finer than that of frames, compression, checksums, and summaries.
    """

    def __init__(
        self,
        path: Path,
        header: TrajectoryHeader,
        options: TrajectoryOptions,
        record: dict[str, Any],
    ) -> None:
        self.path = path.resolve()
        self.n_committed = 0
        self._header = header
        self._options = options
        self._record = record
        self._waiting: list[Frame] = []
        self._lock = files.lock(path)
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
            If the file exists and ``overwrite`` is false, or is no trajectory of md_gie, or is
            being written; or if the format cannot hold what the options ask for.
        """
        path = Path(path)
        refuse_options(path, options)
        files.refuse_second_writer(path)
        if path.exists():
            if not overwrite:
                raise files.exists_already(path)
            refuse_to_replace(path)
            path.unlink()
        path.touch(exist_ok=False)
        units = {item.name: item.unit for item in options.observables}
        record = {"metadata": dict(header.metadata), "observables": units, "runs": [_start(0)]}
        return cls(path, header, options, record)

    @classmethod
    def open_existing(
        cls, path: str | Path, options: TrajectoryOptions, *, last_step: int | None = None
    ) -> Self:
        """Open a file to append, after dropping a torn last frame and those of later steps.

        Raises
        ------
        TrajectoryError
            If the file is missing, in use, damaged, or no trajectory of md_gie.
        """
        path = Path(path)
        files.refuse_second_writer(path)
        files.lock(path).close()
        with ASEReader(path) as reader:
            frames = [frame for frame in reader if last_step is None or frame.step <= last_step]
            start = last_step if last_step is not None else int(reader.steps[-1])
            record = reader.record | {"runs": [*reader.runs, _start(start)]}
        # A new file, renamed, so that a kill leaves the old content or the new.
        temporary = path.with_name(f"{path.stem}.tmp{path.suffix}")
        temporary.unlink(missing_ok=True)
        writer = cls(temporary, reader.header, options, record)
        try:
            writer._write(frames)
            temporary.replace(path)
        finally:
            writer._release()
        writer = cls(path, reader.header, options, record)
        writer.n_committed = len(frames)
        return writer

    def due(self, step: int) -> frozenset[str]:
        """Names of what has an entry of a step: ``frames``, and what has a cadence in them."""
        options = self._options
        if step % (options.frames_every or 1):
            return frozenset()
        cadences = {"velocity": options.velocities_every, "force": options.forces_every}
        parts = {name for name, every in cadences.items() if every and step % every == 0}
        return frozenset({layout.FRAMES, *parts})

    def append(self, frame: Frame) -> None:
        """Add a frame, if its step is one of those that are kept.

        Raises
        ------
        TrajectoryError
            If the frame lacks what the file holds, or has another shape.
        """
        if not self.due(frame.step):
            return
        options, n_atoms = self._options, len(self._header.numbers)
        velocities = options.velocities and frame.step % (options.velocities_every or 1) == 0
        forces = options.forces and frame.step % (options.forces_every or 1) == 0
        arrays = {
            "positions": frame.positions,
            "velocities": frame.velocities if velocities else np.zeros((n_atoms, 3)),
            "forces": frame.forces if forces else np.zeros((n_atoms, 3)),
        }
        for name, array in arrays.items():
            if array is None or np.shape(array) != (n_atoms, 3):
                raise self._lacking(name, frame)
        for item in options.observables:
            value = frame.observables.get(item.name)
            if value is None or np.shape(value) != item.shape:
                raise self._lacking(item.name, frame)
        copy = {name: np.array(array, dtype=np.float64) for name, array in arrays.items()}
        self._waiting.append(
            Frame(
                frame.step,
                frame.time_fs,
                np.array(frame.cell),
                copy["positions"],
                copy["velocities"] if velocities else None,
                copy["forces"] if forces else None,
                {item.name: frame.observables[item.name] for item in options.observables},
            )
        )
        if len(self._waiting) >= _MOST_WAITING:
            self.commit()

    def commit(self) -> int:
        """Write what is waiting and return how many frames the file holds for certain.

        Raises
        ------
        TrajectoryError
            If the disk is full or fails; the frames committed before are intact.
        """
        count, size = self.n_committed, self.path.stat().st_size
        try:
            self._write(self._waiting)
        except OSError as error:
            os.truncate(self.path, size)
            self._release()
            raise TrajectoryError(
                f"{self.path}: writing after frame {count - 1} failed ({error}); the {count} "
                "frames committed before are intact",
                n_committed=count,
            ) from error
        self.n_committed = count + len(self._waiting)
        self._waiting.clear()
        return self.n_committed

    def record_summary(self, summary: Mapping[str, Any]) -> None:  # noqa: ARG002 - as H5MDWriter
        """Commit; these formats have no place for a summary."""
        self.commit()

    def close(self) -> None:
        """Commit and close; closing twice is harmless."""
        if not self._lock.closed:
            try:
                self.commit()
            finally:
                self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _write(self, frames: list[Frame]) -> None:
        images = [to_atoms(frame, self._header) for frame in frames]
        if images and self.path.stat().st_size == 0:
            # Percent-encoded: extended XYZ loses backslashes within JSON within quotes.
            images[0].info[RECORD] = quote(json.dumps(self._record))
        if self.path.suffix.lower() != ".traj":
            with self.path.open("a") as file:
                write_extxyz(file, images)
        elif images:
            mode = "a" if self.path.stat().st_size else "w"
            with ASETrajectoryWriter(self.path, mode) as trajectory:
                for atoms in images:
                    trajectory.write(atoms)
        if self._options.fsync:
            with self.path.open("rb") as file:
                os.fsync(file.fileno())

    def _release(self) -> None:
        self._waiting.clear()
        files.release(self.path)
        self._lock.close()

    def _lacking(self, name: str, frame: Frame) -> TrajectoryError:
        return TrajectoryError(
            f"{self.path} holds {name}, and the frame of step {frame.step} has none or another "
            "shape",
            step=frame.step,
        )


def refuse_to_replace(path: Path) -> None:
    """Raise TrajectoryError unless a file may be lost: empty, or a trajectory not in use.

    Raises
    ------
    TrajectoryError
        If it is anything else.
    """
    try:
        if not path.is_file():
            raise TrajectoryError(f"{path} is not an ordinary file")
        files.lock(path).close()
        if path.stat().st_size:
            ASEReader(path)
    except TrajectoryError as error:
        raise TrajectoryError(
            f"{error}; it is not overwritten: move it away, or write to another file", path=path
        ) from error


def refuse_options(path: Path, options: TrajectoryOptions) -> None:
    """Raise TrajectoryError if these formats cannot hold what the options ask for.

    Raises
    ------
    TrajectoryError
        Naming it.
    """
    asked = {
        "observables between frames": options.cadences().get("observables"),
        "compression": options.compression,
    }
    for name, value in asked.items():
        if value:
            raise TrajectoryError(
                f"{path}: {path.suffix} has no {name}; take a name that ends in .h5md, or leave it "
                "out",
                path=path,
            )


def _start(step: int) -> dict[str, str | int]:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"start_step": step, "time": now, "version": version("md_gie")}
