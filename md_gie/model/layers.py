"""Layers shared by the boxes: norms and per-degree linear maps on (D, N, C) node states.

Node states are stored row first: ``x[row]`` is the contiguous (N, C) slice of packed row
``l² + l + m``, so that a per-degree linear map is a batch of plain matrix products.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from md_gie.model.weights import Weights


def row_degrees(degree: int) -> Tensor:
    """Degree of each packed row up to ``degree``: ((degree+1)²,) int64."""
    degrees = torch.arange(degree + 1)
    return degrees.repeat_interleave(2 * degrees + 1)


def expand_rows(weight: Tensor, degree: int, first: int = 0) -> Tensor:
    """Give each packed row the weight of its degree: (L+1, ...) to (D, ...).

    With ``first`` = 1 both start at degree 1: (L, ...) to (D - 1, ...).
    """
    return weight.index_select(0, _row_index(degree, first, weight.device))


@lru_cache(maxsize=64)
def _row_index(degree: int, first: int, device: torch.device) -> Tensor:
    # Kept on the device: a copy in each call would stall it, and cannot be captured in a graph.
    return (row_degrees(degree)[first * first :] - first).to(device)


def rms(x: Tensor, epsilon: float = 1e-7) -> Tensor:
    """Scale the last axis to unit root mean square."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)


class NormWeights(NamedTuple):
    """Folded equivariant norm: scale (D, 1, C), bias (1, C), row weights (D, 1, 1)."""

    scale: Tensor
    bias: Tensor
    balance: Tensor


class EquivariantNorm:
    """Root-mean-square norm over all rows and channels, each degree with equal weight.

    The scalar row is centred over its channels first.

    Parameters
    ----------
    degree : int
        Largest degree of the state.
    channels : int
        Channels C.
    epsilon : float
        Added to the mean square.
    """

    def __init__(self, degree: int, channels: int, epsilon: float) -> None:
        self.degree = degree
        self.epsilon = epsilon
        degrees = row_degrees(degree)
        self.balance = 1.0 / ((degree + 1) * channels * (2.0 * degrees.double() + 1.0))

    def fold(self, w: Weights) -> NormWeights:
        """Expand the scale to rows."""
        scale = expand_rows(w["adam_scale"], self.degree)
        return NormWeights(scale, w["bias"], w.constant(self.balance)[:, None, None])

    def __call__(self, f: NormWeights, x: Tensor) -> Tensor:
        """Normalise (D, N, C)."""
        scalar = x[:1] - x[:1].mean(-1, keepdim=True)
        x = torch.cat([scalar, x[1:]])
        variance = (x.square() * f.balance).sum((0, 2))
        x = x * torch.rsqrt(variance + self.epsilon)[:, None] * f.scale
        return torch.cat([x[:1] + f.bias, x[1:]])
