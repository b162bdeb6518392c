"""Everything that a report tells about a trajectory, as numbers."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from md_gie.errors import TrajectoryError
from md_gie.report.diffusion import Diffusion, diffusion
from md_gie.report.pairs import PairStatistics, pair_statistics
from md_gie.report.scene import frames_to_show, scene
from md_gie.report.series import settled
from md_gie.trajectory import TrajectoryHeader
from md_gie.trajectory.formats import TrajectoryReader, read_trajectory

Floats = NDArray[np.float64]

_MOST_PAIR_FRAMES = 100
_MOST_PAIR_EDGES = 60_000_000  # over all frames together, some ten seconds
_EDGES_PER_ATOM = 220
# Reading more than this only for checksums takes too long.
_LARGEST_VERIFIED = 2 * 10**9  # bytes
_MOST_VERIFIED = 10_000  # frames
_MOST_ORIGINS = 5000
_MOST_PLACES = 3_000_000  # atoms times frames of which displacements are taken


@dataclass(frozen=True)
class Study:
    """Numbers behind a report.

    Attributes
    ----------
    path : Path
    header : TrajectoryHeader
    config : dict
        The run's configuration, empty if the file has none.
    times_ps : (F,)
        Of frames.
    steps : (F,)
    cells : (F, 3, 3), Å
    units : dict of str to str
    series : dict of str to (times in ps, values)
        Scalar observables.
    pairs : PairStatistics
    diffusion : dict of element to Diffusion, or str
    scene : dict or None
        For the viewer.
    runs, summaries : list of dict
        Starts of the run, and what each process said at its end.
    damage : str
        Empty if every frame agrees with its checksum, or the file is too large to find out.
    """

    path: Path
    header: TrajectoryHeader
    config: dict[str, Any]
    times_ps: Floats
    steps: NDArray[np.int64]
    cells: Floats
    units: dict[str, str]
    series: dict[str, tuple[Floats, Floats]]
    pairs: PairStatistics
    diffusion: dict[str, Diffusion] | str
    scene: dict[str, Any] | None
    runs: list[dict[str, str | int]]
    summaries: list[dict[str, Any]]
    damage: str

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return len(self.header.numbers)

    @property
    def volumes(self) -> Floats:
        """Volumes (F,) in Å³ of the cells."""
        volumes: Floats = np.abs(np.linalg.det(self.cells))
        return volumes

    @property
    def is_periodic(self) -> bool:
        """Whether the cell is periodic throughout, so that there are volume and pressure."""
        return all(self.header.pbc)


def study(path: str | Path) -> Study:
    """Read a trajectory and analyse it.

    Raises
    ------
    TrajectoryError
        The file cannot be read as a trajectory of md_gie, or holds no frame.
    """
    path = Path(path)
    with read_trajectory(path) as reader:
        if not len(reader):
            raise TrajectoryError(f"{path} holds no frame yet; run at least one step", path=path)
        count, header = len(reader), reader.header
        n_atoms = len(header.numbers)
        return Study(
            path=path,
            header=header,
            config=_config(header),
            times_ps=reader.times_fs / 1000,
            steps=reader.steps,
            cells=reader.cells,
            units=dict(reader.observables),
            series=_series(reader),
            pairs=_pairs(reader),
            diffusion=_diffusion(reader),
            scene=scene([reader[k] for k in frames_to_show(count, n_atoms)], header),
            runs=reader.runs,
            summaries=reader.summaries,
            damage=_damage(reader),
        )


def _config(header: TrajectoryHeader) -> dict[str, Any]:
    try:
        config = json.loads(header.metadata.get("config", "{}"))
    except (TypeError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}


def _series(reader: TrajectoryReader) -> dict[str, tuple[Floats, Floats]]:
    found = {}
    for name in reader.observables:
        _, times_fs, values = reader.series(name)
        if values.ndim == 1 and len(values):
            found[name] = (times_fs / 1000, values)
    return found


def _pairs(reader: TrajectoryReader) -> PairStatistics:
    n_atoms = len(reader.header.numbers)
    most = max(1, min(_MOST_PAIR_FRAMES, _MOST_PAIR_EDGES // (n_atoms * _EDGES_PER_ATOM)))
    chosen = _spread(0, len(reader), most)
    first = next(k for k, frame in enumerate(chosen) if frame >= settled(len(reader)).start)
    return pair_statistics([reader[k] for k in chosen], reader.header, settled_from=first)


def _diffusion(reader: TrajectoryReader) -> dict[str, Diffusion] | str:
    start = settled(len(reader)).start
    most = min(_MOST_ORIGINS, _MOST_PLACES // len(reader.header.numbers))
    chosen = _spread(start, len(reader), max(2, most))
    positions = np.stack([reader.positions(k) for k in chosen]).astype(np.float64)
    return diffusion(positions, reader.times_fs[chosen] / 1000, reader.header)


def _spread(first: int, count: int, most: int) -> list[int]:
    """Evenly spaced frames up to the last."""
    step = max(1, -(-(count - first) // most))
    return list(range(count - 1, first - 1, -step))[::-1]


def _damage(reader: TrajectoryReader) -> str:
    if reader.path.stat().st_size > _LARGEST_VERIFIED or len(reader) > _MOST_VERIFIED:
        return ""
    try:
        reader.verify()
    except TrajectoryError as error:
        return str(error)
    return ""
