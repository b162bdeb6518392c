"""Zonal scatter on a GPU: one program for each destination, which owns all edges of its row.

Programs keep the sums of all rows of a channel block in registers, so that each edge is read once
and the message surface (E, D - 1, C) exists nowhere. Nothing is shared between programs: no
atomics, and sums in the order of the edges, tile by tile. Couplings are read, or evaluated from the
edge vectors (``EPSILON`` not negative).
"""

import triton
import triton.language as tl

from md_gie.ops.triton_common import clear_tail
from md_gie.ops.zonal_scatter.triton_harmonics import (
    circular,
    harmonic,
    harmonic_gradient,
    legendre,
    unit_vector,
)


@triton.jit
def forward(
    coupling, radial, row_ptr, out, ROWS: tl.constexpr, FIRST: tl.constexpr, L: tl.constexpr,
    SLOTS: tl.constexpr, C: tl.constexpr, EPSILON: tl.constexpr, ACC: tl.constexpr,
    BE: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Sum one row and channel block; ``coupling`` is (E, ROWS), or edge vectors (E, 3)."""
    row = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    inside = c < C
    begin = tl.load(row_ptr + row).to(tl.int64)
    end = tl.load(row_ptr + row + 1).to(tl.int64)
    sums = ()
    for _ in tl.static_range(ROWS):
        sums = sums + (tl.zeros((BE, BC), ACC),)
    for start in range(begin, end, BE):
        e = start + tl.arange(0, BE)
        live = e < end
        mask = live[:, None] & inside[None, :]
        if EPSILON >= 0:
            ux, uy, uz, _inverse = unit_vector(coupling, e, live, EPSILON, ACC)
            q = legendre(uz, L)
            cosines, sines = circular(ux, uy, L)
        added = ()
        for l in tl.static_range(FIRST, L + 1):
            slot = (e * SLOTS + (l - FIRST if SLOTS > 1 else 0)) * C
            x = tl.load(radial + slot[:, None] + c[None, :], mask, 0.0).to(ACC)
            for m in tl.static_range(2 * l + 1):
                if EPSILON >= 0:
                    w = harmonic(q, cosines, sines, l, m - l)
                else:
                    w = tl.load(coupling + e * ROWS + (l * l - FIRST + m), live, 0.0).to(ACC)
                added = added + (sums[l * l - FIRST + m] + w[:, None] * x,)
        sums = added
    target = out + row * ((ROWS + FIRST) * C) + c
    if FIRST == 1:
        tl.store(target, tl.zeros((BC,), out.dtype.element_ty), inside)
    for r in tl.static_range(ROWS):
        total = tl.sum(sums[r], 0).to(out.dtype.element_ty)
        tl.store(target + (r + FIRST) * C, total, inside)


@triton.jit
def backward(
    grad, coupling, radial, row_ptr, d_coupling, d_radial, n_rows, n_edges, ROWS: tl.constexpr,
    FIRST: tl.constexpr, L: tl.constexpr, SLOTS: tl.constexpr, C: tl.constexpr,
    EPSILON: tl.constexpr, ACC: tl.constexpr, BE: tl.constexpr, BC: tl.constexpr,
    TAIL: tl.constexpr,
):  # fmt: skip
    """Both gradients of one row's edges; the last TAIL programs clear those of padding."""
    row = tl.program_id(0).to(tl.int64)
    WIDTH: tl.constexpr = 3 if EPSILON >= 0 else ROWS
    if row >= n_rows:
        tail = tl.load(row_ptr + n_rows).to(tl.int64)
        clear_tail(d_coupling, WIDTH, tail, n_edges, row - n_rows, TAIL)
        clear_tail(d_radial, SLOTS * C, tail, n_edges, row - n_rows, TAIL)
        return
    begin = tl.load(row_ptr + row).to(tl.int64)
    end = tl.load(row_ptr + row + 1).to(tl.int64)
    COLUMNS: tl.constexpr = triton.next_power_of_2(WIDTH)
    BLOCKS: tl.constexpr = (C + BC - 1) // BC
    element = d_radial.dtype.element_ty
    column = tl.arange(0, COLUMNS)
    lane = tl.arange(0, BC)
    source = grad + row * ((ROWS + FIRST) * C) + lane
    # With one channel block the gradients of the node are the same for all of its edges.
    held = ()
    if BLOCKS == 1:
        for r in tl.static_range(ROWS):
            held = held + (tl.load(source + (r + FIRST) * C, lane < C, 0.0).to(ACC),)
    # And features are read a tile ahead: memory is busy while products are made.
    ahead = features(radial, begin + tl.arange(0, BE), end, lane, SLOTS, C, BLOCKS == 1)
    for start in range(begin, end, BE):
        e = start + tl.arange(0, BE)
        live = e < end
        following = features(radial, e + BE, end, lane, SLOTS, C, BLOCKS == 1)
        weights = ()
        if EPSILON < 0:
            for r in tl.static_range(ROWS):
                weights = weights + (tl.load(coupling + e * ROWS + r, live, 0.0).to(ACC),)
        products = tl.zeros((BE, COLUMNS), ACC)
        if EPSILON >= 0:
            ux, uy, uz, inverse = unit_vector(coupling, e, live, EPSILON, ACC)
            q = legendre(uz, L)
            cosines, sines = circular(ux, uy, L)
            gx, gy, gz = tl.zeros((BE,), ACC), tl.zeros((BE,), ACC), tl.zeros((BE,), ACC)
        for block in tl.static_range(BLOCKS):
            c = block * BC + lane
            mask = live[:, None] & (c < C)[None, :]
            shared = tl.zeros((BE, BC), ACC)
            for l in tl.static_range(FIRST, L + 1):
                slot = (e * SLOTS + (l - FIRST if SLOTS > 1 else 0)) * C
                if BLOCKS == 1:
                    x = ahead[l - FIRST if SLOTS > 1 else 0].to(ACC)
                else:
                    x = tl.load(radial + slot[:, None] + c[None, :], mask, 0.0).to(ACC)
                dx = tl.zeros((BE, BC), ACC)
                for m in tl.static_range(2 * l + 1):
                    if BLOCKS == 1:
                        g = held[l * l - FIRST + m]
                    else:
                        g = tl.load(source + block * BC + (l * l + m) * C, c < C, 0.0).to(ACC)
                    product = tl.sum(x * g[None, :], 1)
                    if EPSILON >= 0:
                        w = harmonic(q, cosines, sines, l, m - l)
                        bx, by, bz = harmonic_gradient(q, cosines, sines, l, m - l)
                        gx += product * bx
                        gy += product * by
                        gz += product * bz
                    else:
                        w = weights[l * l - FIRST + m]
                        chosen = column[None, :] == l * l - FIRST + m
                        products += tl.where(chosen, product[:, None], 0.0)
                    dx += w[:, None] * g[None, :]
                if SLOTS > 1:
                    tl.store(d_radial + slot[:, None] + c[None, :], dx.to(element), mask)
                else:
                    shared += dx
            if SLOTS == 1:
                tl.store(d_radial + e[:, None] * C + c[None, :], shared.to(element), mask)
        if EPSILON >= 0:
            # Through the normalisation: only what is across the edge turns it.
            along = gx * ux + gy * uy + gz * uz
            products = tl.where(column[None, :] == 0, ((gx - along * ux) * inverse)[:, None], 0.0)
            products += tl.where(column[None, :] == 1, ((gy - along * uy) * inverse)[:, None], 0.0)
            products += tl.where(column[None, :] == 2, ((gz - along * uz) * inverse)[:, None], 0.0)
        # One store for all rows: single columns would write each sector of memory many times.
        tl.store(
            d_coupling + e[:, None] * WIDTH + column[None, :], products.to(element),
            live[:, None] & (column < WIDTH)[None, :],
        )  # fmt: skip
        ahead = following


@triton.jit
def features(radial, e, end, c, SLOTS: tl.constexpr, C: tl.constexpr, WANTED: tl.constexpr):
    """Radial features of edges ``e``, a tile for each slot; no tile unless WANTED."""
    tiles = ()
    if WANTED:
        for slot in tl.static_range(SLOTS):
            at = (e[:, None] * SLOTS + slot) * C + c[None, :]
            tiles = tiles + (tl.load(radial + at, (e < end)[:, None] & (c < C)[None, :], 0.0),)
    return tiles
