"""Sums over CSR rows by Triton: one program for each row and block of columns."""

import triton
import triton.language as tl
from torch import Tensor

from md_gie.ops.launch import device_of, power_of_2
from md_gie.ops.triton_common import ACCUMULATOR


def segment_sum(values: Tensor, row_ptr: Tensor, order: Tensor | None) -> Tensor:
    """Sum rows ``values[order[k]]`` of (E, W) over ``k`` of each segment: (N, W)."""
    n_rows, width = row_ptr.shape[0] - 1, values.shape[1]
    out = values.new_empty(n_rows, width)
    if out.numel() == 0:
        return out
    block = min(power_of_2(width), 128)
    with device_of(values):
        _segment_sum[(n_rows, triton.cdiv(width, block))](
            values.contiguous(), row_ptr, row_ptr if order is None else order, out,
            ORDERED=order is not None, WIDTH=width, ACC=ACCUMULATOR[values.dtype],
            BE=max(1, 256 // block), BW=block, num_warps=2,
        )  # fmt: skip
    return out


@triton.jit
def _segment_sum(
    values, row_ptr, order, out, ORDERED: tl.constexpr, WIDTH: tl.constexpr, ACC: tl.constexpr,
    BE: tl.constexpr, BW: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BW + tl.arange(0, BW)
    begin, end = tl.load(row_ptr + row).to(tl.int64), tl.load(row_ptr + row + 1).to(tl.int64)
    sums = tl.zeros((BE, BW), ACC)
    for start in range(begin, end, BE):
        e = start + tl.arange(0, BE)
        live = e < end
        mask = live[:, None] & (column < WIDTH)[None, :]
        if ORDERED:
            e = tl.load(order + e, live, 0).to(tl.int64)
        sums += tl.load(values + e[:, None] * WIDTH + column[None, :], mask, 0.0).to(ACC)
    tl.store(out + row * WIDTH + column, tl.sum(sums, 0).to(out.dtype.element_ty), column < WIDTH)
