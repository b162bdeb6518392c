"""Rotations on CPU by the fused kernels: first derivatives only, ``|m| <= 1``, one head."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from md_gie.ops.edges import Edges
from md_gie.ops.rotation import cpu_kernels
from md_gie.ops.threads import as_array, parallel_region

# Chunks of edges that threads take in turn; enough to balance any thread count.
_N_CHUNKS = 64


def rotate_in(
    nodes: Tensor, frames: Tensor, radial: Tensor, basis: Tensor | None, edges: Edges, n_focus: int
) -> list[Tensor]:
    """See :func:`md_gie.ops.rotation.rotate_in`; ``frames`` (E, 3 (D - 1)) are packed."""
    y0, y1 = _RotateIn.apply(
        nodes, frames, radial, basis, edges.src, edges.source_ptr, edges.source_order, n_focus
    )
    return [y0.flatten(2), y1.flatten(2)]


def rotate_out(streams: list[Tensor], weights: Tensor, frames: Tensor, edges: Edges) -> Tensor:
    """See :func:`md_gie.ops.rotation.rotate_out`; ``weights`` (E, F), packed ``frames``."""
    n_focus, n_edges, columns = streams[0].shape
    degrees = _degrees(streams)
    y0 = streams[0].reshape(n_focus, n_edges, degrees, columns // degrees)
    y1 = streams[1].reshape(n_focus, n_edges, 2, degrees - 1, columns // degrees)
    out: Tensor = _RotateOut.apply(y0, y1, weights, frames, edges.row_ptr)
    return out.flatten(2)


def _degrees(streams: list[Tensor]) -> int:
    """Number of degrees L + 1, from (L + 1) Cf and 2 L Cf columns."""
    width = streams[0].shape[2] - streams[1].shape[2] // 2
    return streams[0].shape[2] // width


class _RotateIn(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, nodes: Tensor, frames: Tensor, radial: Tensor, basis: Tensor | None,
        src: Tensor, source_ptr: Tensor, source_order: Tensor, n_focus: int,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        n_atoms, rows, hidden = nodes.shape
        degrees, width, n_edges = round(rows**0.5), hidden // n_focus, src.shape[0]
        nodes = nodes.reshape(n_atoms, rows, n_focus, width)
        y0 = nodes.new_empty(n_focus, n_edges, degrees, width)
        y1 = nodes.new_empty(n_focus, n_edges, 2, degrees - 1, width)
        with parallel_region():
            if basis is None:
                radial = radial.reshape(n_edges, degrees, n_focus, width).contiguous()
                cpu_kernels.rotate_in_scaled(
                    as_array(nodes), as_array(frames), as_array(radial), as_array(src),
                    y0.numpy(), y1.numpy(), _N_CHUNKS,
                )  # fmt: skip
            else:
                basis = basis.reshape(-1, n_focus, width)
                rank = basis.shape[0]
                radial = radial.reshape(n_edges, radial.shape[1] // rank, rank).contiguous()
                cpu_kernels.rotate_in_mixed(
                    as_array(nodes), as_array(frames), as_array(radial), as_array(basis),
                    as_array(src), y0.numpy(), y1.numpy(), _N_CHUNKS,
                )  # fmt: skip
        ctx.save_for_backward(nodes, frames, radial, basis, source_ptr, source_order)
        return y0, y1

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g0: Tensor, g1: Tensor) -> tuple[Tensor | None, ...]:
        nodes, frames, radial, basis, source_ptr, source_order = ctx.saved_tensors
        d_nodes, d_frames = torch.zeros_like(nodes), frames.new_zeros(frames.shape)
        d_radial = radial.new_zeros(radial.shape)
        shared = [as_array(t) for t in (source_ptr, source_order, g0, g1)]
        gradients = [t.numpy() for t in (d_nodes, d_frames, d_radial)]
        with parallel_region():
            if basis is None:
                inputs = [as_array(t) for t in (nodes, frames, radial)]
                cpu_kernels.rotate_in_scaled_backward(*inputs, *shared, *gradients)
            else:
                inputs = [as_array(t) for t in (nodes, frames, radial, basis)]
                cpu_kernels.rotate_in_mixed_backward(*inputs, *shared, *gradients)
        return d_nodes.flatten(2), d_frames, d_radial.flatten(1), None, None, None, None, None


class _RotateOut(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, y0: Tensor, y1: Tensor, weights: Tensor, frames: Tensor, row_ptr: Tensor
    ) -> Tensor:
        n_focus, _, degrees, width = y0.shape
        out = y0.new_zeros(row_ptr.shape[0] - 1, degrees * degrees, n_focus, width)
        inputs = [as_array(t) for t in (y0, y1, weights, frames, row_ptr)]
        with parallel_region():
            cpu_kernels.rotate_out(*inputs, out.numpy())
        ctx.save_for_backward(y0, y1, weights, frames, row_ptr)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        y0, y1, weights, frames, row_ptr = ctx.saved_tensors
        gradients = [
            torch.empty_like(y0, memory_format=torch.contiguous_format),
            torch.empty_like(y1, memory_format=torch.contiguous_format),
            torch.empty_like(weights, memory_format=torch.contiguous_format),
            frames.new_zeros(frames.shape),
        ]
        inputs = [as_array(t) for t in (grad, y0, y1, weights, frames, row_ptr)]
        with parallel_region():
            cpu_kernels.rotate_out_backward(*inputs, *(t.numpy() for t in gradients))
        return *gradients, None
