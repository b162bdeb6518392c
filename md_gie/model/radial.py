"""Radial features of edges: cutoff envelopes, radial basis and the hidden layer of the network.

The network's last layer is linear. It is kept apart, because every box that uses the radial
features folds it into a matrix of its own.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from md_gie.model.config import DPA4Config
from md_gie.model.inventory import last_radial_layer
from md_gie.model.layers import rms
from md_gie.model.weights import Weights


def envelope(x: Tensor, exponent: int) -> Tensor:
    r"""Cutoff envelope of the scaled distance, with a zero of fourth order at 1.

    .. math:: c_p(x) = (1 - x)^4 \sum_{k<p} \binom{k+3}{3} x^k

    Parameters
    ----------
    x : floating
        Distance over cutoff; values above 1 give 0.
    exponent : int
        Number of terms p.
    """
    x = x.clamp(max=1.0)
    series = torch.full_like(x, float(math.comb(exponent + 2, 3)))
    for k in range(exponent - 2, -1, -1):
        series = series * x + math.comb(k + 3, 3)
    square = (1.0 - x).square()
    return square.square() * series


class RadialWeights(NamedTuple):
    """Folded radial network: frequencies (1, n), first layer (n, W), norm scale (W) or None.

    Frequencies are float64 in a frozen model, whatever the network's dtype.
    """

    frequencies: Tensor
    first: Tensor
    scale: Tensor | None


class RadialFeatures(NamedTuple):
    """Radial quantities of E edges.

    Attributes
    ----------
    weight : (E,)
        Edge envelope w.
    basis : (E, n_radial)
        Radial basis, envelope included.
    hidden : (E, W)
        Input of the network's last layer; the edge envelope is included (format version 1.1 up).
    """

    weight: Tensor
    basis: Tensor
    hidden: Tensor


class RadialNetwork:
    """Envelope, basis and hidden layer; see :func:`fold_last_layer` for the rest."""

    def __init__(self, config: DPA4Config) -> None:
        self.config = config
        # The format rounds the cutoff of the edge envelope (not of the basis) to float32.
        self.edge_cutoff = float(np.float32(config.rcut))

    def fold(self, w: Weights) -> RadialWeights:
        """Collect the parameters."""
        scale = w["radial_embedding.net.1.adam_scale"] if self.config.edge_norm else None
        return RadialWeights(
            w["radial_basis.adam_freqs"], w["radial_embedding.net.0.matrix"], scale
        )

    def __call__(self, f: RadialWeights, r: Tensor) -> RadialFeatures:
        """Evaluate for edge lengths (E,) float64 in Å; features have the network's dtype.

        Phases of the sines reach tens of radians, and envelopes cancel near the cutoff: in float32
        they would double the error of the forces.
        """
        p_basis, p_edge = self.config.env_exp
        weight = envelope(r / self.edge_cutoff, p_edge)
        cut = envelope(r / self.config.rcut, p_basis)
        distance = r.unsqueeze(1)
        if self.config.basis_type == "bessel":
            phase = distance * f.frequencies.double()
            basis = torch.sin(phase) * (cut / r).unsqueeze(1)
        else:
            sigma = self.config.rcut / max(self.config.n_radial - 1, 1)
            away = distance - f.frequencies.double()
            basis = torch.exp(away.square() * (-0.5 / sigma**2)) * cut.unsqueeze(1)
        basis, weight = basis.to(f.first.dtype), weight.to(f.first.dtype)
        hidden = basis @ f.first
        if f.scale is not None:
            hidden = rms(hidden) * f.scale
        hidden = F.silu(hidden)
        if self.config.version >= 1.1:
            hidden = hidden * weight.unsqueeze(1)
        return RadialFeatures(weight, basis, hidden)


def fold_last_layer(w: Weights, config: DPA4Config) -> Tensor:
    """Last layer of the radial network as (W, lmax + 1, C)."""
    matrix = w[last_radial_layer(config)]
    return matrix.reshape(matrix.shape[0], config.lmax + 1, config.channels)
