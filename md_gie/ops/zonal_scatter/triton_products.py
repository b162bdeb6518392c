"""Zonal scatter in float32 as small matrix products, which leave time for little but memory.

With the edges of a tile as the inner axis, the rows of one degree are ``couplingᵀ @ radial``, and
both gradients are products with the node's gradients. One program owns one destination and one
degree, or all degrees where they share one radial feature or fit into one tile. Tensor cores
multiply factors split into two TF32 numbers, which keeps float32's accuracy.
"""

import triton
import triton.language as tl

from md_gie.ops.triton_common import clear_tail


@triton.jit
def forward_whole(
    coupling, radial, row_ptr, out, ROWS: tl.constexpr, FIRST: tl.constexpr, SLOTS: tl.constexpr,
    C: tl.constexpr, BE: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Sum all degrees of one destination: products of all couplings, of which a degree keeps its.

    Rows that a degree does not keep cost products, which are cheap, and spare reading couplings in
    pieces.
    """
    row = tl.program_id(0).to(tl.int64)
    r, c = tl.arange(0, BR), tl.arange(0, BC)
    begin = tl.load(row_ptr + row).to(tl.int64)
    end = tl.load(row_ptr + row + 1).to(tl.int64)
    sums = ()
    for _ in tl.static_range(SLOTS):
        sums = sums + (tl.zeros((BR, BC), tl.float32),)
    for start in range(begin, end, BE):
        e = start + tl.arange(0, BE)
        live = (e < end)[:, None]
        b = tl.load(coupling + e[:, None] * ROWS + r[None, :], live & (r < ROWS)[None, :], 0.0)
        added = ()
        for slot in tl.static_range(SLOTS):
            at = (e[:, None] * SLOTS + slot) * C + c[None, :]
            x = tl.load(radial + at, live & (c < C)[None, :], 0.0)
            added = added + (tl.dot(tl.trans(b), x, sums[slot], input_precision="tf32x3"),)
        sums = added
    target = out + row * ((ROWS + FIRST) * C) + c
    if FIRST == 1:
        tl.store(target, tl.zeros((BC,), tl.float32), c < C)
    for slot in tl.static_range(SLOTS):
        first, size = rows_of(slot, ROWS, FIRST, SLOTS)
        kept = ((r >= first) & (r < first + size))[:, None] & (c < C)[None, :]
        tl.store(target[None, :] + (r[:, None] + FIRST) * C, sums[slot], kept)


@triton.jit
def forward(
    coupling, radial, row_ptr, out, ROWS: tl.constexpr, FIRST: tl.constexpr, SLOTS: tl.constexpr,
    C: tl.constexpr, BE: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Sum the rows of one destination and degree."""
    row, slot = tl.program_id(0).to(tl.int64), tl.program_id(1)
    first, n_rows = rows_of(slot, ROWS, FIRST, SLOTS)
    r, c = tl.arange(0, BR), tl.arange(0, BC)
    begin = tl.load(row_ptr + row).to(tl.int64)
    end = tl.load(row_ptr + row + 1).to(tl.int64)
    sums = tl.zeros((BR, BC), tl.float32)
    for start in range(begin, end, BE):
        e = start + tl.arange(0, BE)
        live = (e < end)[:, None]
        b = tl.load(
            coupling + e[:, None] * ROWS + first + r[None, :], live & (r < n_rows)[None, :], 0.0
        )
        at = (e[:, None] * SLOTS + slot) * C + c[None, :]
        x = tl.load(radial + at, live & (c < C)[None, :], 0.0)
        sums = tl.dot(tl.trans(b), x, sums, input_precision="tf32x3")
    target = out + row * ((ROWS + FIRST) * C) + c
    if FIRST == 1:
        if slot == 0:
            tl.store(target, tl.zeros((BC,), tl.float32), c < C)
    mask = (r < n_rows)[:, None] & (c < C)[None, :]
    tl.store(target[None, :] + (first + r[:, None] + FIRST) * C, sums, mask)


@triton.jit
def backward(
    grad, coupling, radial, row_ptr, d_coupling, d_radial, n_rows, n_edges, ROWS: tl.constexpr,
    FIRST: tl.constexpr, SLOTS: tl.constexpr, C: tl.constexpr, BE: tl.constexpr,
    BR: tl.constexpr, BC: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    """Both gradients of one destination and degree; the last TAIL programs clear padding's."""
    row, slot = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if row >= n_rows:
        if slot == 0:
            tail = tl.load(row_ptr + n_rows).to(tl.int64)
            clear_tail(d_coupling, ROWS, tail, n_edges, row - n_rows, TAIL)
            clear_tail(d_radial, SLOTS * C, tail, n_edges, row - n_rows, TAIL)
        return
    first, size = rows_of(slot, ROWS, FIRST, SLOTS)
    r, c = tl.arange(0, BR), tl.arange(0, BC)
    begin = tl.load(row_ptr + row).to(tl.int64)
    end = tl.load(row_ptr + row + 1).to(tl.int64)
    source = grad + row * ((ROWS + FIRST) * C) + (first + r[None, :] + FIRST) * C + c[:, None]
    g = tl.load(source, (r < size)[None, :] & (c < C)[:, None], 0.0)
    for start in range(begin, end, BE):
        e = start + tl.arange(0, BE)
        live = (e < end)[:, None]
        row_mask, column_mask = live & (r < size)[None, :], live & (c < C)[None, :]
        at_row = e[:, None] * ROWS + first + r[None, :]
        at_column = (e[:, None] * SLOTS + slot) * C + c[None, :]
        x = tl.load(radial + at_column, column_mask, 0.0)
        b = tl.load(coupling + at_row, row_mask, 0.0)
        tl.store(d_coupling + at_row, tl.dot(x, g, input_precision="tf32x3"), row_mask)
        d_x = tl.dot(b, tl.trans(g), input_precision="tf32x3")
        tl.store(d_radial + at_column, d_x, column_mask)


@triton.jit
def rows_of(slot, ROWS: tl.constexpr, FIRST: tl.constexpr, SLOTS: tl.constexpr):
    """First coupling row and number of rows of a slot: a degree's, or all."""
    first, size = slot * 0, slot * 0 + ROWS
    if SLOTS > 1:
        degree = slot + FIRST
        first, size = degree * degree - FIRST, 2 * degree + 1
    return first, size
