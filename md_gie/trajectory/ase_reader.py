"""Reading trajectories that are extended XYZ or ASE's ``.traj``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

import ase.io
import numpy as np

from md_gie.errors import TrajectoryError
from md_gie.trajectory import files
from md_gie.trajectory.ase_io import header_of, to_frame
from md_gie.trajectory.layout import Frame, TrajectoryHeader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ase import Atoms
    from numpy.typing import NDArray

RECORD = "md_gie"
"""Name in ``info`` of the first frame, under which provenance and units are, as encoded JSON."""


class ASEReader:
    """The frames of a file that :class:`ASEWriter` wrote, all of them in memory.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    TrajectoryError
        If the file is missing, or no trajectory of md_gie in one of these formats.

    Notes
    -----
    Frames, header and observables as those of :class:`H5MDReader`. Frames that a kill has torn are
    not shown; there are no checksums.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise TrajectoryError(f"{self.path}: no such trajectory", path=self.path)
        images = _whole_images(self.path)
        record = _decoded(images[0].info.pop(RECORD, None)) if images else None
        if record is None:
            raise TrajectoryError(
                f"{self.path} is not a trajectory of md_gie: its first frame has no {RECORD} in "
                "its info; read it with ASE",
                path=self.path,
            )
        self.record = record
        bare = header_of(images[0])
        with files.reading(self.path):
            self.header = TrajectoryHeader(bare.numbers, bare.masses, bare.pbc, record["metadata"])
            self.observables: dict[str, str] = dict(record["observables"])
            self._frames = [self._frame(atoms) for atoms in images]

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, index: int) -> Frame:
        return self._frames[index]

    def __iter__(self) -> Iterator[Frame]:
        return iter(self._frames)

    def positions(self, index: int) -> NDArray[np.floating[Any]]:
        """Positions (N, 3) of one frame, Å."""
        return self._frames[index].positions

    def series(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[Any]]:
        """One observable over all frames: steps, times in fs, and values.

        Raises
        ------
        KeyError
            If the file does not hold it.
        """
        values = np.array([frame.observables[name] for frame in self._frames])
        return self.steps, self.times_fs, values

    @property
    def steps(self) -> NDArray[np.int64]:
        """Step numbers of all frames, (F,) int64."""
        return np.array([frame.step for frame in self._frames], dtype=np.int64)

    @property
    def times_fs(self) -> NDArray[np.float64]:
        """Times of all frames, (F,) float64, fs."""
        return np.array([frame.time_fs for frame in self._frames])

    @property
    def cells(self) -> NDArray[np.float64]:
        """Lattice vectors of all frames in rows, (F, 3, 3) float64, Å."""
        return np.array([frame.cell for frame in self._frames]).reshape(-1, 3, 3)

    @property
    def runs(self) -> list[dict[str, str | int]]:
        """Every start and restart: its step, date and version of md_gie."""
        return list(self.record["runs"])

    @property
    def summaries(self) -> list[dict[str, Any]]:
        """Nothing: these formats have no place for them."""
        return []

    def verify(self) -> None:
        """Do nothing: these formats have no checksums."""

    def close(self) -> None:
        """Do nothing: the file is closed already."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _frame(self, atoms: Atoms) -> Frame:
        frame = to_frame(atoms, 0)
        others = {name: atoms.info[name] for name in self.observables if name in atoms.info}
        return replace(frame, observables={**frame.observables, **others})


def _whole_images(path: Path) -> list[Atoms]:
    """Return the frames of a file up to one that is torn."""
    images: list[Atoms] = []
    format_ = "traj" if path.suffix.lower() == ".traj" else "extxyz"
    try:
        images.extend(ase.io.iread(path, ":", format=format_, do_not_split_by_at_sign=True))
    except Exception as error:  # parsers fail in many ways where a file ends too early
        if not images:
            raise TrajectoryError(
                f"{path} cannot be read as a trajectory ({error or type(error).__name__}); it is "
                "damaged or another kind of file",
                path=path,
            ) from error
    return images


def _decoded(text: object) -> dict[str, Any] | None:
    try:
        record = json.loads(unquote(str(text)))
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
