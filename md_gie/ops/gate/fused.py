"""Fused gated residual as a torch operator: ``|m| <= 1``, first derivatives, none for the gate."""

from typing import Any

import torch
from torch import Tensor

from md_gie.ops import launch

_PACKAGE = "md_gie.ops.gate"


def gated_residual(streams: list[Tensor], mixed: list[Tensor], gate: Tensor) -> list[Tensor]:
    """See :func:`md_gie.ops.gate.gated_residual`."""
    x0, x1, _ = _gated_residual(*streams, *mixed, gate)
    return [x0, x1]


@torch.library.custom_op("md_gie::gated_residual", mutates_args=())
def _gated_residual(
    y0: Tensor, y1: Tensor, z0: Tensor, z1: Tensor, gate: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    implementation = launch.implementation(_PACKAGE, z0)
    logits = implementation.multiply(z0[:, :, : gate.shape[1]], gate)
    arrays = [tensor.contiguous() for tensor in (y0, y1, z0, z1)]
    x0, x1 = implementation.gate(*arrays, logits)
    return x0, x1, logits


@torch.library.custom_op("md_gie::gated_residual_backward", mutates_args=())
def _gated_residual_backward(
    g0: Tensor, g1: Tensor, z0: Tensor, z1: Tensor, logits: Tensor, gate: Tensor
) -> tuple[Tensor, Tensor]:
    arrays = [tensor.contiguous() for tensor in (g0, g1, z0, z1)]
    implementation = launch.implementation(_PACKAGE, z0)
    d_z0, d_z1, d_logits = implementation.gate_backward(*arrays, logits)
    d_z0[:, :, : gate.shape[1]] += implementation.multiply(d_logits, gate.transpose(1, 2))
    return d_z0, d_z1


@_gated_residual.register_fake
def _(
    y0: Tensor, y1: Tensor, z0: Tensor, z1: Tensor, gate: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    logits = z0.new_empty(z0.shape[0], z0.shape[1], gate.shape[2])
    return z0.new_empty(z0.shape), z1.new_empty(z1.shape), logits


@_gated_residual_backward.register_fake
def _(
    g0: Tensor, g1: Tensor, z0: Tensor, z1: Tensor, logits: Tensor, gate: Tensor
) -> tuple[Tensor, Tensor]:
    return z0.new_empty(z0.shape), z1.new_empty(z1.shape)


def _save(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    _, _, z0, z1, gate = inputs
    ctx.save_for_backward(z0, z1, output[2], gate)


def _first_order(ctx: Any, g0: Tensor, g1: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    return g0, g1, *_gated_residual_backward(g0, g1, *ctx.saved_tensors), None


_gated_residual.register_autograd(_first_order, setup_context=_save)
