"""Triton kernels of a step: wrap and follow atoms, count, write and transpose edges.

Coordinates are float64, and products are not contracted with sums (the launches say so), so that
the edges have the same bits as those of the compiled loops for CPUs. ``numbers`` (N_NUMBERS,) holds
the cell, the deformation since the build and the inverse cell (rows of periodic axes, else zero),
each (3, 3), then the squares of the largest displacement and of the cutoff.
"""

import triton
import triton.language as tl

N_NUMBERS = 29


@triton.jit
def track(positions, reference, wraps, numbers, wrapped, far, n_atoms, BLOCK: tl.constexpr):
    """Wrap each atom into the box where it was at the build; ``far`` tells of each program."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = i < n_atoms
    u, v, w = triple(wraps, i, live)
    x, y, z, d0, d1, d2 = displacement(positions, reference, numbers, i, live, u, v, w)
    limit = tl.load(numbers + 27)
    square = (d0 * d0 + d1 * d1) + d2 * d2
    # A caller that wraps positions moves an atom by whole lattice vectors. NaN stays far.
    away = (square > limit) & (square < float("inf"))
    d0, d1, d2 = tl.where(away, d0, 0.0), tl.where(away, d1, 0.0), tl.where(away, d2, 0.0)
    u += nearest(product(d0, d1, d2, numbers, 18))
    v += nearest(product(d0, d1, d2, numbers, 19))
    w += nearest(product(d0, d1, d2, numbers, 20))
    x, y, z, d0, d1, d2 = displacement(positions, reference, numbers, i, live, u, v, w)
    near = (d0 * d0 + d1 * d1) + d2 * d2 <= limit
    for_all(wraps, i, live, u, v, w)
    for_all(wrapped, i, live, x, y, z)
    tl.store(far + tl.program_id(0), tl.max((live & (near == 0)).to(tl.int32), 0))


@triton.jit
def count(row_ptr, src, images, wrapped, table, numbers, counts, coincident, BLOCK: tl.constexpr):
    """Edges of one row within the cutoff, and the number of a coincident pair or -1."""
    row = tl.program_id(0)
    here = row + tl.zeros((1,), tl.int32)
    xi, yi, zi = triple(wrapped, here, here >= 0)
    total, pair = tl.zeros((BLOCK,), tl.int32), tl.full((BLOCK,), -1, tl.int32)
    for start in range(tl.load(row_ptr + row), tl.load(row_ptr + row + 1), BLOCK):
        k = start + tl.arange(0, BLOCK)
        live = k < tl.load(row_ptr + row + 1)
        _j, _x, _y, _z, keep, same = edge(src, images, wrapped, table, numbers, k, live, xi, yi, zi)
        total += keep.to(tl.int32)
        pair = tl.where(same, k, pair)
    tl.store(counts + row, tl.sum(total, 0))
    tl.store(coincident + row, tl.max(pair, 0))


@triton.jit
def sum_up(
    counts, coincident, far, out_ptr, source_ptr, summary, n_rows, n_far, BLOCK: tl.constexpr
):
    """Row pointers, and all that the host waits for: far atoms, edges, a coincident pair or -1.

    One program does it: fewer launches are worth more than more programs here.
    """
    lane = tl.arange(0, BLOCK)
    total, pair, away = 0, -1, 0
    for start in range(0, n_rows, BLOCK):
        i = start + lane
        counted = tl.load(counts + i, i < n_rows, 0)
        ends = total + tl.cumsum(counted, 0)
        # Each edge within the cutoff has its reverse there: a source has as many as a row.
        tl.store(out_ptr + 1 + i, ends, i < n_rows)
        tl.store(source_ptr + 1 + i, ends, i < n_rows)
        total += tl.sum(counted, 0)
        pair = tl.maximum(pair, tl.max(tl.load(coincident + i, i < n_rows, -1), 0))
    for start in range(0, n_far, BLOCK):
        away = tl.maximum(away, tl.max(tl.load(far + start + lane, start + lane < n_far, 0), 0))
    tl.store(out_ptr, 0)
    tl.store(source_ptr, 0)
    tl.store(summary, away)
    tl.store(summary + 1, total)
    tl.store(summary + 2, pair)


@triton.jit
def write(
    row_ptr, src, images, wrapped, table, numbers, out_ptr, out_src, out_dst, vectors, places,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the edges of one row; ``places`` gets the place of each listed edge, or -1."""
    row = tl.program_id(0)
    here = row + tl.zeros((1,), tl.int32)
    xi, yi, zi = triple(wrapped, here, here >= 0)
    first = tl.load(out_ptr + row)
    for start in range(tl.load(row_ptr + row), tl.load(row_ptr + row + 1), BLOCK):
        k = start + tl.arange(0, BLOCK)
        live = k < tl.load(row_ptr + row + 1)
        j, x, y, z, keep, _same = edge(src, images, wrapped, table, numbers, k, live, xi, yi, zi)
        kept = keep.to(tl.int32)
        p = first + tl.cumsum(kept, 0) - kept
        tl.store(out_src + p, j, keep)
        tl.store(out_dst + p, row + tl.zeros((BLOCK,), tl.int32), keep)
        for_all(vectors, p.to(tl.int64), keep, x, y, z)
        tl.store(places + k, tl.where(keep, p, -1), live)
        first += tl.sum(kept, 0)


@triton.jit
def transpose(row_ptr, order, places, out_ptr, out_order, BLOCK: tl.constexpr):
    """Numbers of the written edges of one source; each edge's reverse is listed too."""
    row = tl.program_id(0)
    first = tl.load(out_ptr + row)
    for start in range(tl.load(row_ptr + row), tl.load(row_ptr + row + 1), BLOCK):
        k = start + tl.arange(0, BLOCK)
        live = k < tl.load(row_ptr + row + 1)
        place = tl.load(places + tl.load(order + k, live, 0), live, -1)
        kept = (live & (place >= 0)).to(tl.int32)
        tl.store(out_order + first + tl.cumsum(kept, 0) - kept, place, kept > 0)
        first += tl.sum(kept, 0)


@triton.jit
def edge(src, images, wrapped, table, numbers, k, live, xi, yi, zi):
    """Source, vector and fate of listed edges ``k``: within the cutoff, or coincident."""
    j = tl.load(src + k, live, 0)
    image = tl.load(images + k, live, 0)
    x, y, z = triple(wrapped, j, live)
    sx, sy, sz = triple(table, image, live)
    x, y, z = (x - xi) + sx, (y - yi) + sy, (z - zi) + sz
    square = (x * x + y * y) + z * z
    same = live & (square <= tl.full((1,), 1e-20, tl.float64))
    return j, x, y, z, live & (square < tl.load(numbers + 28)) & (same == 0), same


@triton.jit
def displacement(positions, reference, numbers, i, live, u, v, w):
    """Wrap coordinates; also tell how far they are from the deformed ones of the build."""
    x, y, z = triple(positions, i, live)
    x -= product(u, v, w, numbers, 0)
    y -= product(u, v, w, numbers, 1)
    z -= product(u, v, w, numbers, 2)
    a, b, c = triple(reference, i, live)
    d0 = x - product(a, b, c, numbers, 9)
    d1 = y - product(a, b, c, numbers, 10)
    d2 = z - product(a, b, c, numbers, 11)
    return x, y, z, d0, d1, d2


@triton.jit
def product(a, b, c, numbers, COLUMN: tl.constexpr):
    """One component of a row vector times the matrix whose column starts at ``COLUMN``."""
    first = a * tl.load(numbers + COLUMN) + b * tl.load(numbers + COLUMN + 3)
    return first + c * tl.load(numbers + COLUMN + 6)


@triton.jit
def nearest(x):
    """Nearest whole number; halves may go either way, they are no lattice vectors."""
    return tl.floor(x + tl.full((1,), 0.5, tl.float64))


@triton.jit
def triple(array, i, live):
    """Rows of an (N, 3) array as three vectors."""
    at = array + i.to(tl.int64) * 3
    return tl.load(at, live, 0.0), tl.load(at + 1, live, 0.0), tl.load(at + 2, live, 0.0)


@triton.jit
def for_all(array, i, live, x, y, z):
    """Write three vectors as rows of an (N, 3) array."""
    at = array + i.to(tl.int64) * 3
    tl.store(at, x, live)
    tl.store(at + 1, y, live)
    tl.store(at + 2, z, live)
