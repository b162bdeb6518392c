"""Which file format a trajectory has: the ending of its name decides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from md_gie.trajectory import files
from md_gie.trajectory.reader import H5MDReader
from md_gie.trajectory.writer import H5MDWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from md_gie.trajectory.layout import Frame, TrajectoryHeader, TrajectoryOptions

ASE_SUFFIXES = (".extxyz", ".xyz", ".traj")
"""Extended XYZ and ASE's own format; every other ending is H5MD."""


class TrajectoryWriter(Protocol):
    """What runs need of a trajectory that they write; see :class:`H5MDWriter`."""

    path: Path
    n_committed: int

    def due(self, step: int) -> frozenset[str]:
        """Names of what has an entry of a step."""
        ...

    def append(self, frame: Frame) -> None:
        """Add what is due of a frame."""
        ...

    def commit(self) -> int:
        """Make what was added safe, and return how many frames there are for certain."""
        ...

    def record_summary(self, summary: Mapping[str, Any]) -> None:
        """Keep what this process made of its part of the run."""
        ...

    def close(self) -> None:
        """Commit and close."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class TrajectoryReader(Protocol):
    """What is shown of a trajectory; see :class:`H5MDReader`."""

    path: Path
    header: TrajectoryHeader
    observables: dict[str, str]

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Frame: ...

    def __iter__(self) -> Iterator[Frame]: ...

    def positions(self, index: int) -> NDArray[np.floating[Any]]:
        """Positions of one frame, Å."""
        ...

    def series(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[Any]]:
        """Return steps, times in fs, and values of an observable."""
        ...

    @property
    def steps(self) -> NDArray[np.int64]:
        """Step numbers of all frames."""
        ...

    @property
    def times_fs(self) -> NDArray[np.float64]:
        """Times of all frames."""
        ...

    @property
    def cells(self) -> NDArray[np.float64]:
        """Lattice vectors of all frames, Å."""
        ...

    @property
    def runs(self) -> list[dict[str, str | int]]:
        """Every start and restart."""
        ...

    @property
    def summaries(self) -> list[dict[str, Any]]:
        """What each process said at its end."""
        ...

    def verify(self) -> None:
        """Raise TrajectoryError if a frame is damaged."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


def is_ase_file(path: str | Path) -> bool:
    """Tell whether a trajectory of this name is extended XYZ or ASE's own format."""
    return Path(path).suffix.lower() in ASE_SUFFIXES


def create_trajectory(
    path: str | Path,
    header: TrajectoryHeader,
    options: TrajectoryOptions,
    *,
    overwrite: bool = False,
) -> TrajectoryWriter:
    """Start a trajectory in the format that its name tells.

    Raises
    ------
    TrajectoryError
        The file exists and may not be replaced, is in use, or the format cannot hold what the
        options ask for.
    """
    if is_ase_file(path):
        from md_gie.trajectory.ase_writer import ASEWriter

        return ASEWriter.create(path, header, options, overwrite=overwrite)
    return H5MDWriter.create(path, header, options, overwrite=overwrite)


def continue_trajectory(
    path: str | Path, options: TrajectoryOptions, *, last_step: int | None = None
) -> TrajectoryWriter:
    """Open a trajectory to append to it, after dropping frames beyond a step.

    Raises
    ------
    TrajectoryError
        The file is missing, foreign, in use, or damaged.
    """
    if is_ase_file(path):
        from md_gie.trajectory.ase_writer import ASEWriter

        return ASEWriter.open_existing(path, options, last_step=last_step)
    return H5MDWriter.open_existing(path, last_step=last_step, fsync=options.fsync)


def read_trajectory(path: str | Path) -> TrajectoryReader:
    """Open a trajectory to look at it.

    Raises
    ------
    TrajectoryError
        The file is missing, being written, foreign or damaged.
    """
    if is_ase_file(path):
        from md_gie.trajectory.ase_reader import ASEReader

        return ASEReader(path)
    return H5MDReader(path)


def refuse_to_replace(path: Path) -> None:
    """Raise TrajectoryError unless a file may be lost: empty, or a trajectory that is not in use.

    Raises
    ------
    TrajectoryError
        If it is anything else.
    """
    if is_ase_file(path):
        from md_gie.trajectory import ase_writer

        ase_writer.refuse_to_replace(path)
    else:
        files.refuse_to_replace(path)


def refuse_options(path: Path, options: TrajectoryOptions) -> None:
    """Raise TrajectoryError if the format of a file cannot hold what the options ask for.

    Raises
    ------
    TrajectoryError
        Naming it.
    """
    if is_ase_file(path):
        from md_gie.trajectory import ase_writer

        ase_writer.refuse_options(path, options)
