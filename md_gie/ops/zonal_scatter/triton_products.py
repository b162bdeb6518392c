"""Zonal scatter in float32 as small matrix products, which leave time for nothing but memory.

With the edges of a tile as the inner axis, a row's sums are ``couplingᵀ @ radial``, of which the
blocks where the degree of the row is that of the column are kept. Both gradients are products with
the same matrix of a node's gradients, zero outside those blocks. Tensor cores do the work that is
thrown away in passing; factors are split into two TF32 numbers, which keeps float32's accuracy.
"""

import triton
import triton.language as tl

from md_gie.ops.triton_common import clear_tail


@triton.jit
def forward(
    coupling, radial, row_ptr, out, ROWS: tl.constexpr, FIRST: tl.constexpr, L: tl.constexpr,
    SLOTS: tl.constexpr, C: tl.constexpr, BE: tl.constexpr, BR: tl.constexpr, BW: tl.constexpr,
):  # fmt: skip
    """Sum one row."""
    row = tl.program_id(0).to(tl.int64)
    r, w = tl.arange(0, BR), tl.arange(0, BW)
    begin = tl.load(row_ptr + row).to(tl.int64)
    end = tl.load(row_ptr + row + 1).to(tl.int64)
    sums = tl.zeros((BR, BW), tl.float32)
    for start in range(begin, end, BE):
        e = start + tl.arange(0, BE)
        live = (e < end)[:, None]
        b = tl.load(coupling + e[:, None] * ROWS + r[None, :], live & (r < ROWS)[None, :], 0.0)
        x = tl.load(
            radial + e[:, None] * (SLOTS * C) + w[None, :], live & (w < SLOTS * C)[None, :], 0.0
        )
        sums = tl.dot(tl.trans(b), x, sums, input_precision="tf32x3")
    target = out + row * ((ROWS + FIRST) * C) + w % C
    if FIRST == 1:
        tl.store(target, tl.zeros((BW,), tl.float32), w < C)
    kept = is_kept(r[:, None], w[None, :], ROWS, FIRST, L, SLOTS, C)
    tl.store(target[None, :] + (r[:, None] + FIRST) * C, sums, kept)


@triton.jit
def backward(
    grad, coupling, radial, row_ptr, d_coupling, d_radial, n_rows, n_edges, ROWS: tl.constexpr,
    FIRST: tl.constexpr, L: tl.constexpr, SLOTS: tl.constexpr, C: tl.constexpr,
    BE: tl.constexpr, BR: tl.constexpr, BW: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    """Both gradients of one row's edges; the last TAIL programs clear those of padding."""
    row = tl.program_id(0).to(tl.int64)
    if row >= n_rows:
        tail = tl.load(row_ptr + n_rows).to(tl.int64)
        clear_tail(d_coupling, ROWS, tail, n_edges, row - n_rows, TAIL)
        clear_tail(d_radial, SLOTS * C, tail, n_edges, row - n_rows, TAIL)
        return
    r, w = tl.arange(0, BR), tl.arange(0, BW)
    begin = tl.load(row_ptr + row).to(tl.int64)
    end = tl.load(row_ptr + row + 1).to(tl.int64)
    source = grad + row * ((ROWS + FIRST) * C) + w[:, None] % C + (r[None, :] + FIRST) * C
    g = tl.load(source, is_kept(r[None, :], w[:, None], ROWS, FIRST, L, SLOTS, C), 0.0)
    for start in range(begin, end, BE):
        e = start + tl.arange(0, BE)
        live = (e < end)[:, None]
        row_mask, column_mask = live & (r < ROWS)[None, :], live & (w < SLOTS * C)[None, :]
        at_row = e[:, None] * ROWS + r[None, :]
        at_column = e[:, None] * (SLOTS * C) + w[None, :]
        x = tl.load(radial + at_column, column_mask, 0.0)
        tl.store(d_coupling + at_row, tl.dot(x, g, input_precision="tf32x3"), row_mask)
        b = tl.load(coupling + at_row, row_mask, 0.0)
        tl.store(
            d_radial + at_column, tl.dot(b, tl.trans(g), input_precision="tf32x3"), column_mask
        )


@triton.jit
def is_kept(
    r, w, ROWS: tl.constexpr, FIRST: tl.constexpr, L: tl.constexpr, SLOTS: tl.constexpr,
    C: tl.constexpr,
):  # fmt: skip
    """Whether the degree of coupling row r is that of column w."""
    kept = (r < ROWS) & (w < SLOTS * C)
    if SLOTS > 1:
        degree = r * 0
        for l in tl.static_range(1, L + 1):
            degree += (r + FIRST >= l * l).to(tl.int32)
        kept = kept & (w // C == degree - FIRST)
    return kept
