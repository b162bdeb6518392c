"""Zonal scatter on CPU: one pass over each destination's edges, rows in parallel."""

import numba
import numpy as np
import torch
from torch import Tensor

from md_gie.ops.threads import as_array, parallel_region
from md_gie.ops.zonal_scatter.layout import degree_slices


def zonal_scatter(coupling: Tensor, radial: Tensor, row_ptr: Tensor) -> Tensor:
    """See :func:`md_gie.ops.zonal_scatter.zonal_scatter`."""
    first, slot_of_row = _slots(coupling, radial)
    n_rows, channels = row_ptr.shape[0] - 1, radial.shape[2]
    out = radial.new_zeros(n_rows, coupling.shape[1] + first, channels)
    with parallel_region():
        _forward(
            as_array(coupling), as_array(radial), as_array(row_ptr), slot_of_row, first, out.numpy()
        )
    return out


def zonal_scatter_backward(
    grad: Tensor, coupling: Tensor, radial: Tensor, row_ptr: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients for ``coupling`` and ``radial`` of :func:`zonal_scatter`."""
    first, slot_of_row = _slots(coupling, radial)
    d_coupling = torch.empty(coupling.shape, dtype=coupling.dtype)
    d_radial = torch.zeros(radial.shape, dtype=radial.dtype)
    with parallel_region():
        _backward(
            as_array(grad),
            as_array(coupling),
            as_array(radial),
            as_array(row_ptr),
            slot_of_row,
            first,
            d_coupling.numpy(),
            d_radial.numpy(),
        )
    return d_coupling, d_radial


def _slots(coupling: Tensor, radial: Tensor) -> tuple[int, np.ndarray]:
    first, slices = degree_slices(coupling, radial)
    slot_of_row = np.empty(coupling.shape[1], dtype=np.int64)
    for begin, end, slot in slices:
        slot_of_row[begin:end] = slot
    return first, slot_of_row


@numba.njit(parallel=True, cache=True, fastmath={"contract"}, error_model="numpy")
def _forward(coupling, radial, row_ptr, slot_of_row, first, out):
    rows, channels = coupling.shape[1], radial.shape[2]
    for i in numba.prange(row_ptr.shape[0] - 1):
        for e in range(row_ptr[i], row_ptr[i + 1]):
            for r in range(rows):
                weight = coupling[e, r]
                source = radial[e, slot_of_row[r]]
                target = out[i, r + first]
                for c in range(channels):
                    target[c] += weight * source[c]


@numba.njit(parallel=True, cache=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _backward(grad, coupling, radial, row_ptr, slot_of_row, first, d_coupling, d_radial):
    rows, channels = coupling.shape[1], radial.shape[2]
    for i in numba.prange(row_ptr.shape[0] - 1):
        for e in range(row_ptr[i], row_ptr[i + 1]):
            for r in range(rows):
                weight = coupling[e, r]
                source = radial[e, slot_of_row[r]]
                incoming = grad[i, r + first]
                outgoing = d_radial[e, slot_of_row[r]]
                total = weight * 0
                for c in range(channels):
                    total += incoming[c] * source[c]
                    outgoing[c] += weight * incoming[c]
                d_coupling[e, r] = total
