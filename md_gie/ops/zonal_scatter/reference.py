"""Zonal scatter in plain PyTorch: any device, any floating dtype, row order, no atomics."""

import torch
import torch.nn.functional as F
from torch import Tensor

from md_gie.ops.csr import segment_sum
from md_gie.ops.zonal_scatter.layout import degree_slices


def zonal_scatter(coupling: Tensor, radial: Tensor, row_ptr: Tensor) -> Tensor:
    """See :func:`md_gie.ops.zonal_scatter.zonal_scatter`; goes by degrees to bound the memory."""
    first, slices = degree_slices(coupling, radial)
    n_rows = row_ptr.shape[0] - 1
    rows = [radial.new_zeros(n_rows, 1, radial.shape[2])] * first
    rows += [
        segment_sum(coupling[:, begin:end, None] * radial[:, slot, None, :], row_ptr)
        for begin, end, slot in slices
    ]
    return torch.cat(rows, dim=1)


def zonal_scatter_backward(
    grad: Tensor, coupling: Tensor, radial: Tensor, row_ptr: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients for ``coupling`` and ``radial`` of :func:`zonal_scatter`."""
    first, slices = degree_slices(coupling, radial)
    # Padding belongs to a row of zeros behind the last one.
    bounds = torch.cat([row_ptr, row_ptr.new_full((1,), coupling.shape[0])])
    row = torch.arange(row_ptr.shape[0], device=row_ptr.device).repeat_interleave(
        bounds.diff(), output_size=coupling.shape[0]
    )
    d_coupling = torch.empty_like(coupling)
    d_radial = torch.zeros_like(radial)
    for begin, end, slot in slices:
        rows = F.pad(grad[:, begin + first : end + first], (0, 0, 0, 0, 0, 1))
        edge_grad = rows.index_select(0, row)  # (E, 2l+1, C)
        d_coupling[:, begin:end] = (edge_grad @ radial[:, slot, :, None]).squeeze(-1)
        d_radial[:, slot] += (coupling[:, None, begin:end] @ edge_grad).squeeze(1)
    return d_coupling, d_radial
