"""Sums over CSR rows and gathers, each the other's derivative, without atomics.

Every function is differentiable to any order. Sums run in row order, so that the same input gives
the same bits on any device.
"""

from typing import Any

import torch
from torch import Tensor

from md_gie.ops import launch


def sum_rows(values: Tensor, row_ptr: Tensor, row: Tensor) -> Tensor:
    """Sum edge values over the edges of each row.

    Parameters
    ----------
    values : (E, ...) floating
        One entry per edge, in row order.
    row_ptr : (N+1,) int32 or int64
        Edges of row ``i`` are ``row_ptr[i]:row_ptr[i+1]``.
    row : (E,) int32 or int64
        Row of each edge (the same information; it makes the derivative a gather).

    Returns
    -------
    (N, ...) floating
    """
    out: Tensor = _SumRows.apply(values, row_ptr, row)  # type: ignore[no-untyped-call]
    return out


def gather_rows(values: Tensor, row_ptr: Tensor, row: Tensor) -> Tensor:
    """Give each edge the value of its row: (N, ...) to (E, ...); derivative of :func:`sum_rows`."""
    out: Tensor = _GatherRows.apply(values, row_ptr, row)  # type: ignore[no-untyped-call]
    return out


def gather_sources(values: Tensor, src: Tensor, source_ptr: Tensor, source_order: Tensor) -> Tensor:
    """Give each edge the value of its source atom: (N, ...) to (E, ...).

    The derivative sums over the edges of each source, through the permutation ``source_order``
    (E,) that sorts edges by source and its row pointer ``source_ptr`` (N+1,).
    """
    out: Tensor = _GatherSources.apply(  # type: ignore[no-untyped-call]
        values, src, source_ptr, source_order
    )
    return out


def sum_sources(values: Tensor, src: Tensor, source_ptr: Tensor, source_order: Tensor) -> Tensor:
    """Sum edge values over the edges of each source: derivative of :func:`gather_sources`."""
    out: Tensor = _SumSources.apply(  # type: ignore[no-untyped-call]
        values, src, source_ptr, source_order
    )
    return out


@torch.library.custom_op("md_gie::segment_sum", mutates_args=())
def segment_sum(values: Tensor, row_ptr: Tensor, order: Tensor | None = None) -> Tensor:
    """Sum (E, ...) over rows to (N, ...), without a derivative of its own.

    Entries are taken in the order given by the permutation ``order``, or as they come; those from
    ``row_ptr[N]`` on count nowhere.
    """
    n_rows = row_ptr.shape[0] - 1
    if values.numel() == 0 or n_rows == 0:
        return values.new_zeros(n_rows, *values.shape[1:])
    flat = values.reshape(values.shape[0], -1)
    if launch.is_served(values):
        from md_gie.ops import triton_csr

        out = triton_csr.segment_sum(flat, row_ptr, order)
    else:
        flat = flat if order is None else flat.index_select(0, order)
        # Offsets past the last row would be read as one more segment: it wants exactly N + 1.
        out = torch.segment_reduce(
            flat, "sum", offsets=row_ptr.long(), axis=0, initial=0.0, unsafe=True
        )
    return out.reshape(n_rows, *values.shape[1:])


@segment_sum.register_fake
def _(values: Tensor, row_ptr: Tensor, order: Tensor | None = None) -> Tensor:
    return values.new_empty(row_ptr.shape[0] - 1, *values.shape[1:])


class _SumRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, row_ptr: Tensor, row: Tensor) -> Tensor:
        ctx.save_for_backward(row_ptr, row)
        out: Tensor = segment_sum(values, row_ptr)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return gather_rows(grads[0], *ctx.saved_tensors), None, None


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, row_ptr: Tensor, row: Tensor) -> Tensor:
        ctx.save_for_backward(row_ptr, row)
        return values.index_select(0, row)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return sum_rows(grads[0], *ctx.saved_tensors), None, None


class _GatherSources(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, src: Tensor, ptr: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(src, ptr, order)
        return values.index_select(0, src)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        return sum_sources(grads[0], *ctx.saved_tensors), None, None, None


class _SumSources(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, src: Tensor, ptr: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(src, ptr, order)
        out: Tensor = segment_sum(values, ptr, order)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        return gather_sources(grads[0], *ctx.saved_tensors), None, None, None
