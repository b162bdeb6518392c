"""Mean square displacement and self-diffusion from unwrapped positions."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from md_gie.structure import symbols_of
from md_gie.trajectory import TrajectoryHeader

Floats = NDArray[np.float64]

_FIT = (0.2, 0.5)  # of the longest lag: ballistic motion before, too few origins after
_A2_PS_TO_CM2_S = 1e-4
_LEAST_FRAMES = 20
_STRAIGHT = 0.2  # of the exponent, from 1
_LEFT_PLACE_A2 = 1.0


class Diffusion(NamedTuple):
    """Motion of one element.

    Attributes
    ----------
    lags_ps, msd_A2 : (T,)
    coefficient_cm2_s, error_cm2_s : float
        Slope / 6 of a straight line through the middle of the curve, and the spread of this
        number between four groups of atoms over two (nan with fewer than eight atoms).
    exponent : float
        That of time in the middle of the curve: 1 for diffusion, 2 for free flight, 0 for atoms
        that stay.
    """

    lags_ps: Floats
    msd_A2: Floats
    coefficient_cm2_s: float
    error_cm2_s: float
    exponent: float

    @property
    def is_diffusive(self) -> bool:
        """Whether the curve is straight, and atoms have left their places."""
        return abs(self.exponent - 1.0) < _STRAIGHT and bool(self.msd_A2.max() > _LEFT_PLACE_A2)


def diffusion(
    positions: Floats, times_ps: Floats, header: TrajectoryHeader
) -> dict[str, Diffusion] | str:
    r"""Analyse the motion of each element, the motion of the centre of mass taken away.

    .. math:: \operatorname{MSD}(t) = \langle |r_i(t_0 + t) - r_i(t_0)|^2 \rangle_{i, t_0}
        \to 6 D t

    Every frame is an origin :math:`t_0`.

    Parameters
    ----------
    positions : (F, N, 3), Å
        Unwrapped.
    times_ps : (F,)
    header : TrajectoryHeader

    Returns
    -------
    dict of element to Diffusion, or str
        The text says why there is nothing.

    References
    ----------
    Einstein relation: Allen and Tildesley, Computer Simulation of Liquids, 2nd ed. (2017),
    section 2.7. Sums over all origins by Fourier transforms: Calandrini et al., École thématique de
    la Société Française de la Neutronique 12, 201 (2011), doi:10.1051/sfn/201112010.
    """
    if len(times_ps) < _LEAST_FRAMES:
        return f"{len(times_ps)} settled frames are too few; {_LEAST_FRAMES} are needed"
    spacing = np.diff(times_ps)
    if not np.allclose(spacing, spacing[0], rtol=1e-6):
        return "frames are not evenly spaced in time"
    masses = header.masses / header.masses.sum()
    moving = positions - np.einsum("n,fnx->fx", masses, positions)[:, None]
    symbols = np.array(symbols_of(header.numbers))
    lags = times_ps - times_ps[0]
    found = {}
    for symbol in sorted(set(symbols.tolist())):
        msd = np.stack(
            [_mean_square_displacement(moving[:, k]) for k in np.flatnonzero(symbols == symbol)]
        )
        longest = max(2, int(_FIT[1] * len(lags)) + 1)
        found[symbol] = Diffusion(
            lags[:longest],
            msd.mean(0)[:longest],
            _slope(lags, msd.mean(0)),
            _spread(lags, msd),
            _exponent(lags, msd.mean(0)),
        )
    return found


def _mean_square_displacement(path: Floats) -> Floats:
    """Mean over all origins (F,) for the path (F, 3) of one atom."""
    length = len(path)
    path = path - path.mean(0)
    spectrum = np.fft.rfft(path, 2 * length, axis=0)
    products = np.fft.irfft(np.abs(spectrum) ** 2, 2 * length, axis=0)[:length].sum(1)
    squares = (path**2).sum(1)
    # Sum over origins of |r(t0)|² + |r(t0 + t)|²: all squares twice, less those out of reach.
    ends = np.concatenate([[0.0], np.cumsum(squares[:-1] + squares[:0:-1])])
    result: Floats = (2.0 * squares.sum() - ends - 2.0 * products) / (length - np.arange(length))
    return np.maximum(result, 0.0)


def _slope(lags_ps: Floats, msd_A2: Floats) -> float:
    part = slice(int(_FIT[0] * len(lags_ps)), int(_FIT[1] * len(lags_ps)) + 1)
    return float(np.polyfit(lags_ps[part], msd_A2[part], 1)[0]) / 6.0 * _A2_PS_TO_CM2_S


def _exponent(lags_ps: Floats, msd_A2: Floats) -> float:
    part = slice(max(1, int(_FIT[0] * len(lags_ps))), int(_FIT[1] * len(lags_ps)) + 1)
    if not (msd_A2[part] > 0).all():
        return 0.0
    return float(np.polyfit(np.log(lags_ps[part]), np.log(msd_A2[part]), 1)[0])


def _spread(lags_ps: Floats, msd_A2: Floats) -> float:
    if len(msd_A2) < 8:
        return float("nan")
    groups = [_slope(lags_ps, msd_A2[start::4].mean(0)) for start in range(4)]
    return float(np.std(groups, ddof=1) / 2.0)
