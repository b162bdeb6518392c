"""Gated residual: choice of implementation; the only importable face."""

import torch
from torch import Tensor

from md_gie.ops import launch
from md_gie.ops.gate import fused as fused_operator
from md_gie.ops.gate import reference


def gated_residual(
    streams: list[Tensor], mixed: list[Tensor], gate: Tensor, *, fused: bool
) -> list[Tensor]:
    r"""Add gated features to their residual, for every order m.

    Rows of degree l >= 1 are multiplied by :math:`\sigma(z_{00} W)_l`, one gate for each degree and
    channel shared by all orders; the scalar row passes a SiLU.

    Parameters
    ----------
    streams, mixed : list of (F, E, S nl Cf)
        Residual and features, one tensor per order; S is 1 for m = 0 and 2 above.
    gate : (F, Cf, L Cf)
        Gate matrices W.
    fused : bool
        Allow the fused kernels, which have a first derivative only and none for ``gate``.

    Returns
    -------
    list of (F, E, S nl Cf)
    """
    x = streams[0]
    compiled = x.device.type == "cpu" or launch.is_served(x)
    if fused and compiled and x.dtype in (torch.float32, torch.float64) and len(streams) == 2:
        return fused_operator.gated_residual(streams, mixed, gate)
    return reference.gated_residual(streams, mixed, gate)
