"""Zonal scatter on CPU: one pass over each destination's edges, rows in parallel."""

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from md_gie.ops.threads import KERNEL_OPTIONS, Kernel, run_kernel, split_rows
from md_gie.ops.zonal_scatter.layout import degree_slices


def zonal_scatter(coupling: Tensor, radial: Tensor, row_ptr: Tensor) -> Tensor:
    """See :func:`md_gie.ops.zonal_scatter.zonal_scatter`."""
    offset, slot_of_row = _slots(coupling, radial)
    n_rows, channels = row_ptr.shape[0] - 1, radial.shape[2]
    out = radial.new_zeros(n_rows, coupling.shape[1] + offset, channels)
    inputs = (coupling, radial, row_ptr, slot_of_row, offset)
    run_kernel(forward, split_rows(row_ptr), inputs, [out])
    return out


def zonal_scatter_backward(
    grad: Tensor, coupling: Tensor, radial: Tensor, row_ptr: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients for ``coupling`` and ``radial`` of :func:`zonal_scatter`."""
    offset, slot_of_row = _slots(coupling, radial)
    d_coupling = torch.zeros(coupling.shape, dtype=coupling.dtype)
    d_radial = torch.zeros(radial.shape, dtype=radial.dtype)
    inputs = (grad, coupling, radial, row_ptr, slot_of_row, offset)
    run_kernel(backward, split_rows(row_ptr), inputs, [d_coupling, d_radial])
    return d_coupling, d_radial


def _slots(coupling: Tensor, radial: Tensor) -> tuple[int, NDArray[np.int64]]:
    offset, slices = degree_slices(coupling, radial)
    slot_of_row = np.empty(coupling.shape[1], dtype=np.int64)
    for begin, end, slot in slices:
        slot_of_row[begin:end] = slot
    return offset, slot_of_row


@numba.njit(fastmath={"contract"}, **KERNEL_OPTIONS)
def _forward(first, last, coupling, radial, row_ptr, slot_of_row, offset, out):
    rows, channels = coupling.shape[1], radial.shape[2]
    for i in range(first, last):
        for e in range(row_ptr[i], row_ptr[i + 1]):
            for r in range(rows):
                weight = coupling[e, r]
                source = radial[e, slot_of_row[r]]
                target = out[i, r + offset]
                for c in range(channels):
                    target[c] += weight * source[c]


@numba.njit(parallel=True, **KERNEL_OPTIONS)
def _forward_blocks(bounds, coupling, radial, row_ptr, slot_of_row, offset, out):
    for block in numba.prange(bounds.shape[0] - 1):
        _forward(
            bounds[block], bounds[block + 1], coupling, radial, row_ptr, slot_of_row, offset, out
        )


forward = Kernel(_forward, _forward_blocks)


@numba.njit(fastmath={"contract", "reassoc"}, **KERNEL_OPTIONS)
def _backward(
    first, last, grad, coupling, radial, row_ptr, slot_of_row, offset, d_coupling, d_radial
):
    rows, channels = coupling.shape[1], radial.shape[2]
    for i in range(first, last):
        for e in range(row_ptr[i], row_ptr[i + 1]):
            for r in range(rows):
                weight = coupling[e, r]
                source = radial[e, slot_of_row[r]]
                incoming = grad[i, r + offset]
                outgoing = d_radial[e, slot_of_row[r]]
                total = weight * 0
                for c in range(channels):
                    total += incoming[c] * source[c]
                    outgoing[c] += weight * incoming[c]
                d_coupling[e, r] = total


@numba.njit(parallel=True, **KERNEL_OPTIONS)
def _backward_blocks(
    bounds, grad, coupling, radial, row_ptr, slot_of_row, offset, d_coupling, d_radial
):
    for block in numba.prange(bounds.shape[0] - 1):
        _backward(
            bounds[block],
            bounds[block + 1],
            grad,
            coupling,
            radial,
            row_ptr,
            slot_of_row,
            offset,
            d_coupling,
            d_radial,
        )


backward = Kernel(_backward, _backward_blocks)
