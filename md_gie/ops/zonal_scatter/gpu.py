"""Zonal scatter by Triton: which inputs the kernels serve, tile shapes, launches."""

import torch
import triton
from torch import Tensor

from md_gie.ops.launch import TAIL_PROGRAMS, device_of, power_of_2
from md_gie.ops.triton_common import ACCUMULATOR
from md_gie.ops.zonal_scatter import triton_kernels, triton_products
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
    slots, channels, n_rows = radial.shape[1], radial.shape[2], row_ptr.shape[0] - 1
    out = radial.new_empty(n_rows, rows + first_row(rows), channels)
    if out.numel() == 0:
        return out
    with device_of(radial):
        arrays = (coupling, radial, row_ptr, out)
        if _fits_one_tile(radial, rows, epsilon):
            triton_products.forward_whole[(n_rows,)](*arrays, **_whole_options(rows, radial))
            return out
        if _are_products(radial, rows, epsilon):
            tiles = _product_options(rows, radial) | {"num_warps": 1 if channels <= 32 else 2}
            triton_products.forward[(n_rows, slots)](*arrays, **tiles)
            return out
        options = _options(rows, radial, epsilon)
        triton_kernels.forward[(n_rows, triton.cdiv(channels, options["BC"]))](*arrays, **options)
    return out


def _backward(
    grad: Tensor, coupling: Tensor, radial: Tensor, row_ptr: Tensor, rows: int, epsilon: float
) -> tuple[Tensor, Tensor]:
    coupling, radial, row_ptr = coupling.contiguous(), radial.contiguous(), row_ptr.contiguous()
    d_coupling, d_radial = torch.empty_like(coupling), torch.empty_like(radial)
    n_edges, n_rows = coupling.shape[0], row_ptr.shape[0] - 1
    if n_rows == 0 or radial.numel() == 0:
        return d_coupling.zero_(), d_radial.zero_()
    arrays = (grad.contiguous(), coupling, radial, row_ptr, d_coupling, d_radial, n_rows, n_edges)
    programs = n_rows + TAIL_PROGRAMS
    with device_of(radial):
        if _are_products(radial, rows, epsilon) and not _fits_registers(radial, rows):
            triton_products.backward[(programs, radial.shape[1])](
                *arrays, **_product_options(rows, radial), TAIL=TAIL_PROGRAMS
            )
        else:
            triton_kernels.backward[(programs,)](
                *arrays, **_backward_options(rows, radial, epsilon), TAIL=TAIL_PROGRAMS
            )
    return d_coupling, d_radial


def _are_products(radial: Tensor, rows: int, epsilon: float) -> bool:
    """Whether the sums go through matrix products: float32, and tiles that fit into registers."""
    fits = radial.shape[2] <= 64 and (radial.shape[1] > 1 or rows <= 64)
    return epsilon == READ and radial.dtype == torch.float32 and fits


def _fits_one_tile(radial: Tensor, rows: int, epsilon: float) -> bool:
    """Whether all degrees, each with features of its own, go through one product."""
    floats = epsilon == READ and radial.dtype == torch.float32
    return floats and radial.shape[1] > 1 and rows <= 16 and radial.shape[2] <= 64


def _fits_registers(radial: Tensor, rows: int) -> bool:
    """Whether a destination's gradients do, beside the edges: faster than products were measured.

    Where all degrees share one feature, products were faster, for they are fewer.
    """
    several = radial.shape[1] > 1 or rows <= 4
    return several and rows * power_of_2(radial.shape[2]) <= 1200


def _whole_options(rows: int, radial: Tensor) -> dict[str, int]:
    slots, channels = radial.shape[1], radial.shape[2]
    return {
        "ROWS": rows, "FIRST": first_row(rows), "SLOTS": slots, "C": channels,
        "BE": 32 if channels <= 32 else 16, "BR": 16, "BC": max(16, power_of_2(channels)),
        "num_warps": 2,
    }  # fmt: skip


def _product_options(rows: int, radial: Tensor) -> dict[str, int]:
    slots, channels = radial.shape[1], radial.shape[2]
    return {
        "ROWS": rows, "FIRST": first_row(rows), "SLOTS": slots, "C": channels, "BE": 16,
        "BR": 16 if slots > 1 else max(16, power_of_2(rows)),
        "BC": max(16, power_of_2(channels)), "num_warps": 2,
    }  # fmt: skip


def _options(rows: int, radial: Tensor, epsilon: float) -> dict[str, object]:
    slots, channels = radial.shape[1], radial.shape[2]
    few = rows <= 16 and radial.dtype == torch.float32
    edges, warps = (16 if few else 8, 2) if epsilon == READ else (4, 1)
    return {
        "ROWS": rows, "FIRST": first_row(rows), "L": max_degree(rows), "SLOTS": slots,
        "C": channels, "EPSILON": epsilon, "ACC": ACCUMULATOR[radial.dtype],
        "BE": edges, "BC": min(power_of_2(channels), 32), "num_warps": warps,
    }  # fmt: skip


def _backward_options(rows: int, radial: Tensor, epsilon: float) -> dict[str, object]:
    """One channel block where that fits, so that features are read a tile ahead."""
    options = _options(rows, radial, epsilon)
    if epsilon == READ and radial.dtype == torch.float32 and _fits_registers(radial, rows):
        width = power_of_2(radial.shape[2])
        edges, warps = (32, 4) if rows <= 16 and width <= 32 else (8, 1)
        options |= {"BE": edges, "BC": width, "num_warps": warps}
    return options
