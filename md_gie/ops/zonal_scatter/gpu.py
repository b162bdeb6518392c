"""Zonal scatter by Triton: which inputs the kernels serve, tile shapes, launches."""

import torch
import triton
from torch import Tensor

from md_gie.ops.launch import TAIL_PROGRAMS, device_of, power_of_2
from md_gie.ops.triton_common import ACCUMULATOR
from md_gie.ops.zonal_scatter import triton_kernels
from md_gie.ops.zonal_scatter.layout import first_row, max_degree

READ = -1.0  # in place of an epsilon: couplings are read, not evaluated


def zonal_scatter(coupling: Tensor, radial: Tensor, row_ptr: Tensor) -> Tensor:
    """See :func:`md_gie.ops.zonal_scatter.zonal_scatter`."""
    return _forward(coupling, radial, row_ptr, coupling.shape[1], READ)


def zonal_scatter_backward(
    grad: Tensor, coupling: Tensor, radial: Tensor, row_ptr: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients for ``coupling`` and ``radial`` of :func:`zonal_scatter`."""
    return _backward(grad, coupling, radial, row_ptr, coupling.shape[1], READ)


def harmonic_scatter(
    vectors: Tensor, radial: Tensor, row_ptr: Tensor, lmax: int, epsilon: float
) -> Tensor:
    """See :func:`md_gie.ops.zonal_scatter.harmonic_scatter`."""
    return _forward(vectors, radial, row_ptr, (lmax + 1) ** 2 - 1, epsilon)


def harmonic_scatter_backward(
    grad: Tensor, vectors: Tensor, radial: Tensor, row_ptr: Tensor, lmax: int, epsilon: float
) -> tuple[Tensor, Tensor]:
    """Gradients for ``vectors`` and ``radial`` of :func:`harmonic_scatter`."""
    return _backward(grad, vectors, radial, row_ptr, (lmax + 1) ** 2 - 1, epsilon)


def _forward(
    coupling: Tensor, radial: Tensor, row_ptr: Tensor, rows: int, epsilon: float
) -> Tensor:
    coupling, radial, row_ptr = coupling.contiguous(), radial.contiguous(), row_ptr.contiguous()
    channels, n_rows = radial.shape[2], row_ptr.shape[0] - 1
    out = radial.new_empty(n_rows, rows + first_row(rows), channels)
    if out.numel() == 0:
        return out
    options = _options(rows, radial, epsilon)
    with device_of(radial):
        triton_kernels.forward[(n_rows, triton.cdiv(channels, options["BC"]))](
            coupling, radial, row_ptr, out, **options
        )
    return out


def _backward(
    grad: Tensor, coupling: Tensor, radial: Tensor, row_ptr: Tensor, rows: int, epsilon: float
) -> tuple[Tensor, Tensor]:
    coupling, radial, row_ptr = coupling.contiguous(), radial.contiguous(), row_ptr.contiguous()
    d_coupling, d_radial = torch.empty_like(coupling), torch.empty_like(radial)
    n_edges, n_rows = coupling.shape[0], row_ptr.shape[0] - 1
    if n_rows == 0 or radial.numel() == 0:
        return d_coupling.zero_(), d_radial.zero_()
    with device_of(radial):
        triton_kernels.backward[(n_rows + TAIL_PROGRAMS,)](
            grad.contiguous(), coupling, radial, row_ptr, d_coupling, d_radial, n_rows, n_edges,
            **_options(rows, radial, epsilon), TAIL=TAIL_PROGRAMS,
        )  # fmt: skip
    return d_coupling, d_radial


def _options(rows: int, radial: Tensor, epsilon: float) -> dict[str, object]:
    slots, channels = radial.shape[1], radial.shape[2]
    return {
        "ROWS": rows, "FIRST": first_row(rows), "L": max_degree(rows), "SLOTS": slots,
        "C": channels, "EPSILON": epsilon, "ACC": ACCUMULATOR[radial.dtype],
        "BE": 8, "BC": min(power_of_2(channels), 32), "num_warps": 2,
    }  # fmt: skip
