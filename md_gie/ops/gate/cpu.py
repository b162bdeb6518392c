"""Gated residual on CPU: launches of the numba kernels."""

import torch
from torch import Tensor

from md_gie.ops.gate import cpu_kernels
from md_gie.ops.threads import run_kernel, split_edges

multiply = torch.bmm


def gate(y0: Tensor, y1: Tensor, z0: Tensor, z1: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    """See :func:`md_gie.ops.gate.fused.gated_residual`."""
    x0, x1 = z0.new_empty(z0.shape), z1.new_empty(z1.shape)
    inputs = (y0, y1, z0, z1, torch.sigmoid(logits), _share(z0, logits))
    run_kernel(cpu_kernels.forward, split_edges(z0.shape[1]), inputs, [x0, x1])
    return x0, x1


def gate_backward(
    g0: Tensor, g1: Tensor, z0: Tensor, z1: Tensor, logits: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients for ``z0``, ``z1`` and ``logits`` of :func:`gate`."""
    outputs = [z0.new_empty(z0.shape), z1.new_empty(z1.shape), logits.new_empty(logits.shape)]
    inputs = (g0, g1, z0, z1, torch.sigmoid(logits), _share(z0, logits))
    run_kernel(cpu_kernels.backward, split_edges(z0.shape[1]), inputs, outputs)
    return outputs[0], outputs[1], outputs[2]


def _share(z0: Tensor, logits: Tensor) -> Tensor:
    return torch.sigmoid(z0[:, :, : z0.shape[2] - logits.shape[2]])
