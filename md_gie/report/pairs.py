"""Distances between atoms along a trajectory: radial distributions and closest contacts."""

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from md_gie.neighbors import NeighborCache
from md_gie.structure import symbols_of
from md_gie.trajectory import Frame, TrajectoryHeader

Floats = NDArray[np.float64]

_REACH_A = 8.0
_BIN_A = 0.04
_MOST_EDGES = 4_000_000
_MOST_ELEMENTS = 4


class PairStatistics(NamedTuple):
    """What the distances of some frames are.

    Attributes
    ----------
    pairs : tuple of str
        ``O-H`` and so on, an element with itself too.
    radii_A : (B,)
        Middles of the bins.
    distributions : dict of str to (B,)
        Radial distribution functions; empty unless the cell is periodic throughout.
    times_ps : (F,)
    closest_A : dict of str to (F,)
        Shortest distance in each frame, nan where it is beyond ``reach_A``.
    reach_A, half_box_A : float
        Largest distance looked at, and half of the shortest way through the cell: beyond it an
        atom is counted with its own images.
    """

    pairs: tuple[str, ...]
    radii_A: Floats
    distributions: dict[str, Floats]
    times_ps: Floats
    closest_A: dict[str, Floats]
    reach_A: float
    half_box_A: float


def pair_statistics(
    frames: Sequence[Frame], header: TrajectoryHeader, *, settled_from: int = 0
) -> PairStatistics:
    r"""Collect the distances of frames.

    .. math:: g_{ab}(r) = \frac{V}{N_a N_b} \frac{n_{ab}(r)}{4 \pi r^2 \, \Delta r}

    with the number :math:`n_{ab}` of ordered pairs of different atoms, or of an atom and its own
    image, whose distance is in a bin around r; averaged over frames.

    Parameters
    ----------
    frames : sequence of Frame
        At least one.
    header : TrajectoryHeader
    settled_from : int
        First frame that distributions are made of; closest contacts are of all frames.

    References
    ----------
    Allen and Tildesley, Computer Simulation of Liquids, 2nd ed. (2017), section 8.2.
    """
    kinds = _kinds(header)
    reach = _reach(frames[0], header)
    edges_A = np.arange(0.0, reach + _BIN_A / 2, _BIN_A)
    names = list(kinds)
    kind_of = np.full(len(header.numbers), -1)
    for number, members in enumerate(kinds.values()):
        kind_of[members] = number
    couples = list(combinations_with_replacement(range(len(names)), 2))
    histograms = {couple: np.zeros(len(edges_A) - 1) for couple in couples}
    closest = {couple: np.full(len(frames), np.nan) for couple in couples}
    cache = NeighborCache(reach, skin=0.0)
    pbc = np.array(header.pbc)
    for place, frame in enumerate(frames):
        edges = cache.update(np.asarray(frame.positions, dtype=np.float64), frame.cell, pbc)
        distances = edges.vectors.square().sum(1).sqrt().numpy()
        first, second = kind_of[edges.dst.numpy()], kind_of[edges.src.numpy()]
        weight = _volume(frame)
        for couple in couples:
            chosen = distances[(first == couple[0]) & (second == couple[1])]
            if len(chosen):
                closest[couple][place] = chosen.min()
            if place >= settled_from:
                histograms[couple] += weight * np.histogram(chosen, edges_A)[0]
    shells = 4.0 / 3.0 * np.pi * np.diff(edges_A**3)
    n_frames = len(frames) - settled_from
    counts = [len(members) for members in kinds.values()]
    labels = {couple: f"{names[couple[0]]}–{names[couple[1]]}" for couple in couples}
    return PairStatistics(
        pairs=tuple(labels.values()),
        radii_A=(edges_A[1:] + edges_A[:-1]) / 2,
        distributions={
            labels[a, b]: histograms[a, b] / (n_frames * counts[a] * counts[b] * shells)
            for a, b in couples
        }
        if all(header.pbc)
        else {},
        times_ps=np.array([frame.time_fs for frame in frames]) / 1000,
        closest_A={labels[couple]: values for couple, values in closest.items()},
        reach_A=reach,
        half_box_A=_half_box(frames[0], header),
    )


def _kinds(header: TrajectoryHeader) -> dict[str, NDArray[np.intp]]:
    """Atoms of each element, the most frequent elements first; rare ones beyond four are left."""
    symbols = np.array(symbols_of(header.numbers))
    names, counts = np.unique(symbols, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOST_ELEMENTS]
    return {str(names[k]): np.flatnonzero(symbols == names[k]) for k in sorted(order)}


def _reach(frame: Frame, header: TrajectoryHeader) -> float:
    """Choose a largest distance: less than usual where there are too many pairs."""
    n_atoms = len(header.numbers)
    if all(header.pbc):
        density = n_atoms / _volume(frame)
        most = (_MOST_EDGES / (n_atoms * density * 4.0 / 3.0 * np.pi)) ** (1 / 3)
        return float(max(2.0, min(_REACH_A, most)))
    return _REACH_A if n_atoms**2 < _MOST_EDGES else 4.0


def _half_box(frame: Frame, header: TrajectoryHeader) -> float:
    if not all(header.pbc):
        return float("inf")
    spacings = 1.0 / np.linalg.norm(np.linalg.inv(frame.cell), axis=0)
    return float(spacings.min() / 2)


def _volume(frame: Frame) -> float:
    return abs(float(np.linalg.det(frame.cell)))
