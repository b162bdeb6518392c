"""Edge frames: real harmonics, and the Wigner-D rows of the orders that a convolution keeps.

Packed rows are ``l² + l + m``. The basis is ``B_lm(x, y, z) = Y_lm(-x, y, z)`` with real spherical
harmonics normalised to ``sum_m Y_lm² = 1`` for every degree, so that ``B_1 = (y, z, -x)``. The
Wigner matrix of a rotation R obeys ``B_l(R n) = D_l B_l(n)``; its row m = 0 for the rotation that
takes an edge to the z axis holds the harmonics of the edge's direction.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]


def harmonics(directions: Array, lmax: int) -> list[Array]:
    """Basis functions B_l of unit vectors.

    Parameters
    ----------
    directions : (P, 3) float64
        Unit vectors.
    lmax : int
        Largest degree.

    Returns
    -------
    list of (P, 2l+1) float64
        One array per degree 0..lmax, orders -l..l.

    References
    ----------
    Associated Legendre recursions without Condon-Shortley phase: Press et al., Numerical Recipes,
    3rd ed., section 6.7.
    """
    x, y, z = -directions[:, 0], directions[:, 1], directions[:, 2]
    # legendre[l][m] is P_l^m / sin^m; cosines and sines carry the sin^m.
    cosines, sines = [np.ones_like(z)], [np.zeros_like(z)]
    for _ in range(lmax):
        cosines.append(x * cosines[-1] - y * sines[-1])
        sines.append(x * sines[-1] + y * cosines[-2])
    legendre: list[list[Array]] = []
    for degree in range(lmax + 1):
        row = []
        for m in range(degree + 1):
            if m == degree:
                row.append(np.full_like(z, float(math.prod(range(1, 2 * m, 2)))))
            elif m == degree - 1:
                row.append((2 * m + 1) * z * legendre[degree - 1][m])
            else:
                higher, lower = legendre[degree - 1][m], legendre[degree - 2][m]
                row.append(
                    ((2 * degree - 1) * z * higher - (degree + m - 1) * lower) / (degree - m)
                )
        legendre.append(row)
    return [_degree(degree, legendre[degree], cosines, sines) for degree in range(lmax + 1)]


def _degree(degree: int, legendre: list[Array], cosines: list[Array], sines: list[Array]) -> Array:
    out = np.empty((len(legendre[0]), 2 * degree + 1))
    out[:, degree] = legendre[0]
    for m in range(1, degree + 1):
        scale = math.sqrt(2.0 * math.factorial(degree - m) / math.factorial(degree + m))
        out[:, degree + m] = scale * legendre[m] * cosines[m]
        out[:, degree - m] = scale * legendre[m] * sines[m]
    return out


def kept_orders(order: int) -> list[int]:
    """Orders of the rows of a frame, as they are stored: 0, -1, 1, -2, 2, … up to ``order``."""
    return [0] + [sign * m for m in range(1, order + 1) for sign in (-1, 1)]


class FrameTables(NamedTuple):
    """Constants of the recursion of :func:`edge_frames`, one entry for each degree 2..lmax.

    Attributes
    ----------
    projections : list of ((2l-1)·3, 2l+1) floating
        X_l.
    scales : list of (K, 1) floating
        Factors l / sqrt(l² - k²) of the rows with ``|k| < l``.
    """

    projections: list[Tensor]
    scales: list[Tensor]


def frame_tables(lmax: int, order: int) -> FrameTables:
    """Constants X_l of the recursion that builds Wigner-D rows degree by degree.

    ``D_l[k, :] = l / sqrt(l² - k²) (D_{l-1}[k, :] ⊗ B_1(u)) X_l`` for ``|k| < l``: the product of
    two rotated harmonics, projected on its highest degree. X_l is the minimum-norm solution of
    ``(B_{l-1} ⊗ B_1) X_l = B_l`` over sample points.
    """
    rng = np.random.default_rng(7)
    points = rng.normal(size=(40 * (lmax + 1), 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    basis = harmonics(points, lmax)
    projections: list[Tensor] = []
    for degree in range(2, lmax + 1):
        products = (basis[degree - 1][:, :, None] * basis[1][:, None, :]).reshape(len(points), -1)
        projection = np.linalg.lstsq(products, basis[degree], rcond=1e-10)[0]
        projection[np.abs(projection) < 1e-13] = 0.0
        projections.append(torch.from_numpy(projection))
    scales = [
        torch.tensor(
            [[degree / math.sqrt(degree**2 - k**2)] for k in kept_orders(min(order, degree - 1))],
            dtype=torch.float64,
        )
        for degree in range(2, lmax + 1)
    ]
    return FrameTables(projections, scales)


def _sectoral(degree: int) -> float:
    """Normalisation of the harmonics of order ±l: sqrt(2 / (2l)!) (2l-1)!!."""
    return math.sqrt(2.0 / math.factorial(2 * degree)) * math.prod(range(1, 2 * degree, 2))


def edge_frames(unit: Tensor, tables: FrameTables, lmax: int, order: int) -> list[Tensor]:
    """Wigner-D rows of the rotation that takes each edge to the z axis.

    Parameters
    ----------
    unit : (E, 3) floating
        Unit edge vectors.
    tables : FrameTables
        From :func:`frame_tables`, in the dtype and on the device of ``unit``.
    lmax, order : int
        Largest degree and order.

    Returns
    -------
    list of (E, K, 2l+1) floating
        For each degree 0..lmax the rows of :func:`kept_orders` with ``|k| <= l``. Row k = 0 is
        the harmonics of the edge direction. The roll about the edge is arbitrary but smooth on
        each half sphere; every result of the model is invariant to it.
    """
    frames = [torch.ones_like(unit[:, :1]).unsqueeze(-1)]
    if lmax == 0:
        return frames
    first = _first_degree(unit, order)
    frames.append(first)
    zonal = first[:, 0, :]
    for degree in range(2, lmax + 1):
        projection, scale = tables.projections[degree - 2], tables.scales[degree - 2]
        previous = frames[-1]
        rows = (previous.unsqueeze(-1) * zonal[:, None, None, :]).flatten(2) @ projection
        rows = rows * scale
        if degree <= order:
            rows = torch.cat([rows, _outer_rows(previous, first, projection, degree)], dim=1)
        frames.append(rows)
    return frames


def _first_degree(unit: Tensor, order: int) -> Tensor:
    """Rows of D_1 from an orthonormal pair (e1, e2) completing the edge direction.

    The pair is that of Duff et al., Building an Orthonormal Basis, Revisited, JCGT 6 (2017).
    """
    x, y, z = unit.unbind(1)
    rows = [torch.stack([y, z, -x], dim=1)]
    if order >= 1:
        sign = torch.where(z >= 0, 1.0, -1.0).to(z)
        a = -1.0 / (sign + z)
        b = x * y * a
        e1 = (1.0 + sign * x * x * a, sign * b, -sign * x)
        e2 = (b, sign + y * y * a, -y)
        rows.append(torch.stack([e2[1], e2[2], -e2[0]], dim=1))
        rows.append(torch.stack([-e1[1], -e1[2], e1[0]], dim=1))
    return torch.stack(rows, dim=1)


def _outer_rows(previous: Tensor, first: Tensor, projection: Tensor, degree: int) -> Tensor:
    """Rows k = -l, +l from the rows ±(l-1) of the degree below and ±1 of degree 1."""
    below_minus, below_plus = previous[:, -2], previous[:, -1]
    one_minus, one_plus = first[:, 1], first[:, 2]

    def product(a: Tensor, b: Tensor) -> Tensor:
        return (a.unsqueeze(-1) * b.unsqueeze(-2)).flatten(1) @ projection

    # (x + iy)^l is harmonic, so the product needs no projection; the factor l / (2l - 1) undoes the
    # one that the table carries for two zonal harmonics.
    scale = degree / (2 * degree - 1) * _sectoral(degree) / _sectoral(degree - 1)
    # B has x mirrored, which turns (x+iy) into (-x+iy); products below follow Re and Im of it.
    plus = product(below_plus, one_plus) - product(below_minus, one_minus)
    minus = product(below_minus, one_plus) + product(below_plus, one_minus)
    return scale * torch.stack([minus, plus], dim=1)
