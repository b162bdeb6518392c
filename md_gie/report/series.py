"""Scalar quantities along a trajectory: averages with errors, drift, and thinning for plots."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EQUILIBRATION = 0.2
"""Fraction at the beginning of a trajectory that averages leave out."""

_BLOCKS = 10
_MOST_POINTS = 2000


class Average(NamedTuple):
    """Mean of a series without its beginning, and the standard error of that mean.

    The error is nan where there are too few values to tell.
    """

    mean: float
    error: float


class Drift(NamedTuple):
    """Straight line through a conserved quantity: slope per ps, and scatter around the line."""

    slope_per_ps: float
    scatter: float


def settled(length: int) -> slice:
    """Return the part of a series of some length that averages are taken over."""
    return slice(int(EQUILIBRATION * length), length)


def average(values: Floats) -> Average:
    """Average the settled part of a series (F,).

    The error comes from the means of ten blocks, so that correlations shorter than a block do
    not make it too small.

    Reference: Flyvbjerg and Petersen, J. Chem. Phys. 91, 461 (1989), doi:10.1063/1.457480.
    """
    part = values[settled(len(values))]
    if not len(part):
        return Average(float("nan"), float("nan"))
    if len(part) < 2 * _BLOCKS:
        return Average(float(part.mean()), float("nan"))
    size = len(part) // _BLOCKS
    blocks = part[-size * _BLOCKS :].reshape(_BLOCKS, size).mean(1)
    return Average(float(part.mean()), float(blocks.std(ddof=1) / np.sqrt(_BLOCKS)))


def drift(times_ps: Floats, values: Floats) -> Drift | None:
    """Fit a straight line to a series (F,); None if there are not three times."""
    if len(values) < 3 or times_ps[-1] == times_ps[0]:
        return None
    centred = times_ps - times_ps.mean()
    slope = float(centred @ (values - values.mean()) / (centred @ centred))
    rest = values - values.mean() - slope * centred
    return Drift(slope, float(np.sqrt((rest**2).sum() / (len(rest) - 2))))


def thinned(length: int) -> slice:
    """Return every k-th index of a series, such that a plot of them stays light."""
    return slice(None, None, max(1, -(-length // _MOST_POINTS)))


def running_mean(values: Floats) -> Floats:
    """Mean of each value and its neighbours, over a twentieth of the series (F,)."""
    width = max(1, len(values) // 20)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    places = np.arange(len(values))
    first = np.maximum(places - width // 2, 0)
    last = np.minimum(places + width // 2 + 1, len(values))
    mean: Floats = (sums[last] - sums[first]) / (last - first)
    return mean
