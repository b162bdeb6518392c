"""Rotations on CPU by the fused kernels: first derivatives only, ``|m| <= 1``, one head."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from md_gie.ops.edges import Edges
from md_gie.ops.rotation import cpu_kernels, cpu_kernels_out
from md_gie.ops.threads import run_kernel, split_edges, split_rows


def rotate_in(
    nodes: Tensor, frames: Tensor, radial: Tensor, basis: Tensor | None, edges: Edges, n_focus: int
) -> list[Tensor]:
    """See :func:`md_gie.ops.rotation.rotate_in`; ``frames`` (E, 3 (D - 1)) are packed."""
    y0, y1 = _RotateIn.apply(  # type: ignore[no-untyped-call]
        nodes, frames, radial, basis, edges.src, edges.source_ptr, edges.source_order, n_focus
    )
    return [y0.flatten(2), y1.flatten(2)]


def rotate_out(streams: list[Tensor], weights: Tensor, frames: Tensor, edges: Edges) -> Tensor:
    """See :func:`md_gie.ops.rotation.rotate_out`; ``weights`` (E, F), packed ``frames``."""
    n_focus, n_edges, columns = streams[0].shape
    degrees = _degrees(streams)
    y0 = streams[0].reshape(n_focus, n_edges, degrees, columns // degrees)
    y1 = streams[1].reshape(n_focus, n_edges, 2, degrees - 1, columns // degrees)
    out: Tensor = _RotateOut.apply(  # type: ignore[no-untyped-call]
        y0, y1, weights, frames, edges.row_ptr
    )
    return out.flatten(2)


def _degrees(streams: list[Tensor]) -> int:
    """Count degrees, L + 1, from (L + 1) Cf and 2 L Cf columns."""
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
        blocks = split_edges(n_edges)
        if basis is None:
            radial = radial.reshape(n_edges, degrees, n_focus, width)
            inputs: tuple[Tensor, ...] = (nodes, frames, radial, src)
            run_kernel(cpu_kernels.rotate_in_scaled, blocks, inputs, [y0, y1])
        else:
            basis = basis.reshape(-1, n_focus, width)
            rank = basis.shape[0]
            radial = radial.reshape(n_edges, radial.shape[1] // rank, rank)
            inputs = (nodes, frames, radial, basis, src)
            run_kernel(cpu_kernels.rotate_in_mixed, blocks, inputs, [y0, y1])
        ctx.save_for_backward(nodes, frames, radial, basis, source_ptr, source_order)
        return y0, y1

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g0: Tensor, g1: Tensor) -> tuple[Tensor | None, ...]:
        nodes, frames, radial, basis, source_ptr, source_order = ctx.saved_tensors
        outputs = [t.new_zeros(t.shape) for t in (nodes, frames, radial)]
        blocks, shared = split_rows(source_ptr), (source_ptr, source_order, g0, g1)
        if basis is None:
            inputs: tuple[Tensor, ...] = (nodes, frames, radial, *shared)
            run_kernel(cpu_kernels.rotate_in_scaled_backward, blocks, inputs, outputs)
        else:
            inputs = (nodes, frames, radial, basis, *shared)
            run_kernel(cpu_kernels.rotate_in_mixed_backward, blocks, inputs, outputs)
        d_nodes, d_frames, d_radial = outputs
        return d_nodes.flatten(2), d_frames, d_radial.flatten(1), None, None, None, None, None


class _RotateOut(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, y0: Tensor, y1: Tensor, weights: Tensor, frames: Tensor, row_ptr: Tensor
    ) -> Tensor:
        n_focus, _, degrees, width = y0.shape
        out = y0.new_zeros(row_ptr.shape[0] - 1, degrees * degrees, n_focus, width)
        inputs = (y0, y1, weights, frames, row_ptr)
        run_kernel(cpu_kernels_out.rotate_out, split_rows(row_ptr), inputs, [out])
        ctx.save_for_backward(y0, y1, weights, frames, row_ptr)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        y0, y1, weights, frames, row_ptr = ctx.saved_tensors
        outputs = [t.new_empty(t.shape) for t in (y0, y1, weights)]
        outputs.append(frames.new_zeros(frames.shape))
        inputs = (grad, y0, y1, weights, frames, row_ptr)
        run_kernel(cpu_kernels_out.rotate_out_backward, split_rows(row_ptr), inputs, outputs)
        return *outputs, None
