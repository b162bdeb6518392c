"""H5MD reader: the committed frames of a trajectory of md_gie, in its units."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from md_gie.trajectory import files, layout
from md_gie.trajectory.layout import Frame, TrajectoryHeader
from md_gie.trajectory.streams import streams_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


class H5MDReader:
    """The committed frames of a file that :class:`H5MDWriter` wrote.

    Parameters
    ----------
    path : str or Path

    Attributes
    ----------
    header : TrajectoryHeader
        Numbers, masses, periodicity and metadata.
    observables : dict of str to str
        Names and units of what each frame carries beside its configuration.

    Raises
    ------
    TrajectoryError
        If the file is missing, being written, foreign or damaged.

    Notes
    -----
    A sequence of :class:`Frame`: ``len``, indexing (negative too) and iteration; usable as a
    context manager. A frame has velocities and forces if there are some of its step. Data beyond
    the last commit of a killed writer are not shown.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file = files.open_to_read(self.path)
        try:
            with files.reading(self.path):
                self._streams = streams_of(self._file, self.path)
                self._count = self._streams[layout.FRAMES].count
                self._force_factor = files.force_factor(self._file)
                self.header = self._read_header()
                group = self._file.get(layout.OBSERVABLES, {})
                self.observables = {name: group[name]["value"].attrs["unit"] for name in group}
        except BaseException:
            self._file.close()
            raise

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Frame:
        if not -self._count <= index < self._count:
            raise IndexError(f"frame {index} of {self._count}")
        index %= self._count
        file = self._file
        step = int(file[layout.STEP][index])
        forces = self._optional("force", index, step)
        if forces is not None:
            forces = forces.astype(np.float64) / self._force_factor
        group = layout.OBSERVABLES
        return Frame(
            step=step,
            time_fs=float(file[layout.TIME][index]),
            cell=file[f"{layout.BOX}/edges/value"][index],
            positions=file[f"{layout.PARTICLES}/position/value"][index],
            velocities=self._optional("velocity", index, step),
            forces=forces,
            observables={name: file[f"{group}/{name}/value"][index] for name in self.observables},
        )

    def __iter__(self) -> Iterator[Frame]:
        return (self[index] for index in range(self._count))

    def observable(self, name: str) -> NDArray[np.float64]:
        """One observable over all frames, (F, ...), in the unit that ``observables`` names.

        Raises
        ------
        KeyError
            If the file does not hold it.
        """
        if name not in self.observables:
            raise KeyError(f"{self.path} has no observable {name}; it has {list(self.observables)}")
        values: NDArray[np.float64] = self._file[f"{layout.OBSERVABLES}/{name}/value"][: len(self)]
        return values

    def positions(self, index: int) -> NDArray[np.floating[Any]]:
        """Positions (N, 3) of one frame, Å, without reading the rest of it."""
        places: NDArray[np.floating[Any]] = self._file[f"{layout.PARTICLES}/position/value"][index]
        return places

    def series(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[Any]]:
        """One observable at every step at which it was written.

        Returns
        -------
        steps : (F,) int64
        times_fs : (F,) float64
        values : (F, ...) float64, in the unit that ``observables`` names

        Raises
        ------
        KeyError
            If the file does not hold it.
        """
        frames = self.observable(name)
        fine = self._streams.get("observables")
        if fine is None:
            return self.steps, self.times_fs, frames
        values = self._file[f"{layout.FINE}/{name}/value"][: fine.count]
        return fine.steps, fine.times_fs, values

    @property
    def steps(self) -> NDArray[np.int64]:
        """Step numbers of all frames, (F,) int64."""
        steps: NDArray[np.int64] = self._file[layout.STEP][: len(self)]
        return steps

    @property
    def times_fs(self) -> NDArray[np.float64]:
        """Times of all frames, (F,) float64, fs."""
        times: NDArray[np.float64] = self._file[layout.TIME][: len(self)]
        return times

    @property
    def cells(self) -> NDArray[np.float64]:
        """Lattice vectors of all frames in rows, (F, 3, 3) float64, Å."""
        cells: NDArray[np.float64] = self._file[f"{layout.BOX}/edges/value"][: len(self)]
        return cells

    @property
    def summaries(self) -> list[dict[str, Any]]:
        """What :meth:`H5MDWriter.record_summary` was given, one entry for each process that ended.

        Raises
        ------
        TrajectoryError
            If it is no list of records any more.
        """
        with files.reading(self.path):
            found = json.loads(
                self._file[layout.COMMITTED].parent.attrs.get(layout.SUMMARIES, "[]")
            )
            if not all(isinstance(entry, dict) for entry in found):
                raise ValueError("the summaries of its runs are no records")
        return list(found)

    @property
    def runs(self) -> list[dict[str, str | int]]:
        """Every start and restart: its step, date and version of md_gie."""
        rows = self._file[layout.RUNS][()]
        return [
            {"start_step": int(step), "time": time.decode(), "version": version.decode()}
            for step, time, version in rows
        ]

    def verify(self) -> None:
        """Compare every frame with its checksum.

        Raises
        ------
        TrajectoryError
            Naming the first frame that differs.
        """
        for stream in self._streams.values():
            stream.verify(range(stream.count))

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _optional(self, name: str, index: int, step: int) -> NDArray[Any] | None:
        path = layout.value_path(name, self._file)
        if path is None:
            return None
        stream = self._streams.get(name)
        if stream is not None:
            place = int(np.searchsorted(stream.steps, step))
            if place == stream.count or stream.steps[place] != step:
                return None
            index = place
        values: NDArray[Any] = self._file[path][index]
        return values

    def _read_header(self) -> TrajectoryHeader:
        parameters = self._file[layout.PARAMETERS]
        periodic = [text == "periodic" for text in self._file[layout.BOX].attrs["boundary"]]
        return TrajectoryHeader(
            numbers=parameters["numbers"][()],
            masses=parameters["mass"][()],
            pbc=(periodic[0], periodic[1], periodic[2]),
            metadata=dict(parameters.attrs),
        )
