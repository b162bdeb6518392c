"""Gated residual by Triton: tile shapes and launches."""

import torch
import triton
from torch import Tensor

from md_gie.ops.edge_matmul import gpu as edge_matmul
from md_gie.ops.gate import triton_kernels
from md_gie.ops.launch import device_of, power_of_2


def multiply(x: Tensor, matrix: Tensor) -> Tensor:
    """Multiply the features of each edge by the matrix of its stream."""
    if x.dtype != torch.float32:
        return torch.bmm(x, matrix)
    return edge_matmul.edge_matmul(x, matrix, torch.backends.cuda.matmul.allow_tf32)


def gate(y0: Tensor, y1: Tensor, z0: Tensor, z1: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    """See :func:`md_gie.ops.gate.fused.gated_residual`."""
    x0, x1 = torch.empty_like(z0), torch.empty_like(z1)
    _launch(triton_kernels.forward, logits, z0, (y0, y1, z0, z1, logits, x0, x1))
    return x0, x1


def gate_backward(
    g0: Tensor, g1: Tensor, z0: Tensor, z1: Tensor, logits: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients for ``z0``, ``z1`` and ``logits`` of :func:`gate`."""
    d_z0, d_z1, d_logits = torch.empty_like(z0), torch.empty_like(z1), torch.empty_like(logits)
    _launch(triton_kernels.backward, logits, z0, (g0, g1, z0, z1, logits, d_z0, d_z1, d_logits))
    return d_z0, d_z1, d_logits


def _launch(
    kernel: triton.JITFunction, logits: Tensor, z0: Tensor, arrays: tuple[Tensor, ...]
) -> None:
    n_rows = z0.shape[0] * z0.shape[1]
    if n_rows == 0:
        return
    width = z0.shape[2] - logits.shape[2]
    block = power_of_2(width)
    edges = max(1, 1024 // block)
    with device_of(z0):
        kernel[(triton.cdiv(n_rows, edges),)](
            *arrays, n_rows, L=logits.shape[2] // width, WIDTH=width, BE=edges, BC=block,
            num_warps=8,
        )  # fmt: skip
