"""Gated residual on CPU: one pass forward and one backward; first derivatives, ``|m| <= 1``."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from md_gie.ops.gate import cpu_kernels
from md_gie.ops.threads import run_kernel, split_edges


def gated_residual(streams: list[Tensor], mixed: list[Tensor], gate: Tensor) -> list[Tensor]:
    """See :func:`md_gie.ops.gate.gated_residual`."""
    return list(_GatedResidual.apply(*streams, *mixed, gate))  # type: ignore[no-untyped-call]


class _GatedResidual(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, y0: Tensor, y1: Tensor, z0: Tensor, z1: Tensor, gate: Tensor
    ) -> tuple[Tensor, Tensor]:
        scalar = z0[:, :, : gate.shape[1]]
        gates = torch.bmm(scalar, gate).sigmoid_()
        share = torch.sigmoid(scalar)
        x0, x1 = z0.new_empty(z0.shape), z1.new_empty(z1.shape)
        inputs = (y0, y1, z0, z1, gates, share)
        run_kernel(cpu_kernels.forward, split_edges(z0.shape[1]), inputs, [x0, x1])
        ctx.save_for_backward(z0, z1, gates, share, gate)
        return x0, x1

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g0: Tensor, g1: Tensor) -> tuple[Tensor | None, ...]:
        z0, z1, gates, share, gate = ctx.saved_tensors
        d_z0, d_z1 = z0.new_empty(z0.shape), z1.new_empty(z1.shape)
        d_logits = gates.new_empty(gates.shape)
        inputs, outputs = (g0, g1, z0, z1, gates, share), [d_z0, d_z1, d_logits]
        run_kernel(cpu_kernels.backward, split_edges(z0.shape[1]), inputs, outputs)
        d_z0[:, :, : gate.shape[1]] += torch.bmm(d_logits, gate.transpose(1, 2))
        return g0, g1, d_z0, d_z1, None
