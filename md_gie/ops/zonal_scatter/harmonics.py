"""Real harmonics of edge directions in plain PyTorch, differentiable to any order."""

import math

import torch
from torch import Tensor


def real_harmonics(vectors: Tensor, degree: int, epsilon: float = 0.0) -> Tensor:
    r"""Basis functions of the directions of vectors, degrees 1 to ``degree``.

    ``B_lm(x, y, z) = Y_lm(-x, y, z)`` with real spherical harmonics normalised to
    :math:`\sum_m Y_{lm}^2 = 1` for every degree, so that ``B_1 = (y, z, -x)``.

    Parameters
    ----------
    vectors : (E, 3) floating
        Any length; :math:`\hat v = v / \sqrt{v^2 + \varepsilon^2}`.
    degree : int
        Largest degree L.
    epsilon : float
        Added to the length in quadrature.

    Returns
    -------
    (E, (L+1)² - 1) floating
        Rows ``l² + l + m`` of the degrees 1..L.

    References
    ----------
    Recursion of the Schmidt semi-normalised Legendre functions: Winch et al., Geophys. J. Int. 160,
    487 (2005), doi:10.1111/j.1365-246X.2004.02472.x.
    """
    length = torch.sqrt(vectors.square().sum(1, keepdim=True) + epsilon**2)
    x, y, z = (vectors / length).unbind(1)
    cosines, sines = [torch.ones_like(z)], [torch.zeros_like(z)]
    table: dict[tuple[int, int], Tensor] = {(0, 0): torch.ones_like(z)}
    columns = []
    for n in range(1, degree + 1):
        cosines.append(-x * cosines[-1] - y * sines[-1])
        sines.append(-x * sines[-1] + y * cosines[-2])
        for m in range(n + 1):
            table[n, m] = _legendre(table, n, m, z)
        columns += [table[n, m] * sines[m] for m in range(n, 0, -1)]
        columns += [table[n, m] * cosines[m] for m in range(n + 1)]
    return torch.stack(columns, dim=1)


def _legendre(table: dict[tuple[int, int], Tensor], n: int, m: int, z: Tensor) -> Tensor:
    """Semi-normalised function of degree n and order m over the m-th power of the sine."""
    if m == n:
        factor = 1.0 if n == 1 else math.sqrt(1.0 - 0.5 / n)
        return table[n - 1, n - 1] * factor
    if m == n - 1:
        return math.sqrt(2.0 * n - 1.0) * z * table[n - 1, m]
    lower = math.sqrt((n - 1.0) ** 2 - m**2) * table[n - 2, m]
    return ((2.0 * n - 1.0) * z * table[n - 1, m] - lower) / math.sqrt(n**2 - m**2)
