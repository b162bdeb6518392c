"""Rotations on CPU: launches of the numba kernels."""

import torch
from torch import Tensor

from md_gie.ops.rotation import cpu_kernels, cpu_kernels_out
from md_gie.ops.threads import run_kernel, split_edges, split_rows


def rotate_in(
    nodes: Tensor, frames: Tensor, radial: Tensor, basis: Tensor | None, src: Tensor, n_focus: int
) -> tuple[Tensor, Tensor]:
    """See :func:`md_gie.ops.rotation.packed.rotate_in`."""
    n_atoms, rows, hidden = nodes.shape
    degrees, width, n_edges = round(rows**0.5), hidden // n_focus, src.shape[0]
    nodes = nodes.reshape(n_atoms, rows, n_focus, width)
    y0 = nodes.new_empty(n_focus, n_edges, degrees, width)
    y1 = nodes.new_empty(n_focus, n_edges, 2, degrees - 1, width)
    blocks = split_edges(n_edges)
    if basis is None:
        radial = radial.reshape(n_edges, degrees, n_focus, width)
        run_kernel(cpu_kernels.rotate_in_scaled, blocks, (nodes, frames, radial, src), [y0, y1])
    else:
        radial, basis = _ranks(radial, basis, n_focus)
        inputs = (nodes, frames, radial, basis, src)
        run_kernel(cpu_kernels.rotate_in_mixed, blocks, inputs, [y0, y1])
    return y0, y1


def rotate_in_backward(
    g0: Tensor, g1: Tensor, nodes: Tensor, frames: Tensor, radial: Tensor, basis: Tensor | None,
    source_ptr: Tensor, source_order: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients for ``nodes``, ``frames`` and ``radial`` of :func:`rotate_in`."""
    n_focus, n_edges, degrees, width = g0.shape
    d_nodes, d_frames, d_radial = (t.new_zeros(t.shape) for t in (nodes, frames, radial))
    nodes = nodes.reshape(nodes.shape[0], nodes.shape[1], n_focus, width)
    shared = (source_ptr, source_order, g0, g1)
    blocks = split_rows(source_ptr)
    if basis is None:
        scales = (n_edges, degrees, n_focus, width)
        kernel = cpu_kernels.rotate_in_scaled_backward
        inputs: tuple[Tensor, ...] = (radial.reshape(scales),)
        outputs = [d_nodes.view(nodes.shape), d_frames, d_radial.view(scales)]
    else:
        kernel = cpu_kernels.rotate_in_mixed_backward
        inputs = _ranks(radial, basis, n_focus)
        outputs = [d_nodes.view(nodes.shape), d_frames, d_radial.view(inputs[0].shape)]
    run_kernel(kernel, blocks, (nodes, frames, *inputs, *shared), outputs)
    return d_nodes, d_frames, d_radial


def _ranks(radial: Tensor, basis: Tensor, n_focus: int) -> tuple[Tensor, Tensor]:
    rank = basis.shape[0]
    radial = radial.reshape(radial.shape[0], radial.shape[1] // rank, rank)
    return radial, basis.reshape(rank, n_focus, -1)


def rotate_out(y0: Tensor, y1: Tensor, weights: Tensor, frames: Tensor, row_ptr: Tensor) -> Tensor:
    """See :func:`md_gie.ops.rotation.packed.rotate_out`."""
    n_focus, _, degrees, width = y0.shape
    out = y0.new_zeros(row_ptr.shape[0] - 1, degrees * degrees, n_focus, width)
    inputs = (y0, y1, weights, frames, row_ptr)
    run_kernel(cpu_kernels_out.rotate_out, split_rows(row_ptr), inputs, [out])
    return out.flatten(2)


def rotate_out_backward(
    grad: Tensor, y0: Tensor, y1: Tensor, weights: Tensor, frames: Tensor, row_ptr: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients for the first four arguments of :func:`rotate_out`."""
    n_focus, _, _, width = y0.shape
    grad = grad.reshape(grad.shape[0], grad.shape[1], n_focus, width)
    outputs = [torch.zeros(t.shape, dtype=t.dtype) for t in (y0, y1, weights, frames)]
    inputs = (grad, y0, y1, weights, frames, row_ptr)
    run_kernel(cpu_kernels_out.rotate_out_backward, split_rows(row_ptr), inputs, outputs)
    return outputs[0], outputs[1], outputs[2], outputs[3]
