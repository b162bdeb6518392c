"""Compiled loops of the neighbor cache on a CPU: serial over a block of rows, without the GIL.

Threads come from :mod:`md_gie.neighbors.threads`, not from numba: its own threading layers
abort the process when two Python threads use them at once (workqueue) or after a fork (GNU
OpenMP). Every loop writes rows whose place is fixed beforehand, so that no result depends on
how rows are split into blocks.
"""

import numba
import numpy as np

COINCIDENT2 = 1e-20  # Å²; closer atoms have no direction between them


def _compiled(function):
    try:
        return numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return numba.njit(nogil=True, error_model="numpy")(function)


@_compiled
def track_atoms(
    start, stop, positions, cell, inverse, reference, deformation, limit2, wraps, wrapped
):
    """Wrap each atom into the box where it was at the build; False once one has gone too far."""
    for i in range(start, stop):
        for attempt in range(2):
            d0 = d1 = d2 = 0.0
            for k in range(3):
                lattice = wraps[i, 0] * cell[0, k] + wraps[i, 1] * cell[1, k]
                wrapped[i, k] = positions[i, k] - (lattice + wraps[i, 2] * cell[2, k])
                home = reference[i, 0] * deformation[0, k] + reference[i, 1] * deformation[1, k]
                home = home + reference[i, 2] * deformation[2, k]
                if k == 0:
                    d0 = wrapped[i, k] - home
                elif k == 1:
                    d1 = wrapped[i, k] - home
                else:
                    d2 = wrapped[i, k] - home
            moved = d0 * d0 + d1 * d1 + d2 * d2
            if moved <= limit2:
                break
            # A caller that wraps positions moves an atom by whole lattice vectors. NaN ends here.
            if attempt == 1 or not np.isfinite(moved):
                return False
            for k in range(3):
                boxes = d0 * inverse[0, k] + d1 * inverse[1, k] + d2 * inverse[2, k]
                wraps[i, k] += np.rint(boxes)
    return True


@_compiled
def pack_rows(
    start, stop, pair_ptr, src, shifts, extents, bits, wrapped, table, radius2, keys, counts
):
    """Turn a library's rows into sorted keys ``src << bits | image``, within radius; count them."""
    width1 = 2 * extents[1] + 1
    width2 = 2 * extents[2] + 1
    for i in range(start, stop):
        begin = pair_ptr[i]
        n = begin
        for k in range(begin, pair_ptr[i + 1]):
            j = src[k]
            image = (shifts[k, 0] + extents[0]) * width1 + (shifts[k, 1] + extents[1])
            image = image * width2 + (shifts[k, 2] + extents[2])
            x = (wrapped[j, 0] - wrapped[i, 0]) + table[image, 0]
            y = (wrapped[j, 1] - wrapped[i, 1]) + table[image, 1]
            z = (wrapped[j, 2] - wrapped[i, 2]) + table[image, 2]
            if (x * x + y * y) + z * z < radius2:
                keys[n] = (j << bits) | image
                n += 1
        keys[begin:n].sort()
        counts[i] = n - begin


@_compiled
def unpack_rows(start, stop, pair_ptr, keys, bits, row_ptr, src, images):
    """Split sorted keys into sources and image numbers, without the gaps between rows."""
    mask = (1 << bits) - 1
    for i in range(start, stop):
        shift = pair_ptr[i] - row_ptr[i]
        for k in range(row_ptr[i], row_ptr[i + 1]):
            src[k] = keys[k + shift] >> bits
            images[k] = keys[k + shift] & mask


@_compiled
def order_by_source(row_ptr, src, next_place, order):
    """Edge numbers grouped by source, ascending in each; ``next_place`` starts as row_ptr[:-1]."""
    for k in range(row_ptr[-1]):
        j = src[k]
        order[next_place[j]] = k
        next_place[j] += 1


@_compiled
def count_edges(start, stop, row_ptr, src, images, wrapped, table, cutoff2):
    """Count the edges of rows ``start:stop`` that are within the cutoff."""
    n = 0
    for i in range(start, stop):
        xi, yi, zi = wrapped[i, 0], wrapped[i, 1], wrapped[i, 2]
        for k in range(row_ptr[i], row_ptr[i + 1]):
            j = src[k]
            t = images[k]
            x = (wrapped[j, 0] - xi) + table[t, 0]
            y = (wrapped[j, 1] - yi) + table[t, 1]
            z = (wrapped[j, 2] - zi) + table[t, 2]
            r2 = (x * x + y * y) + z * z
            n += (r2 < cutoff2) & (r2 > COINCIDENT2)
    return n


@_compiled
def write_edges(
    start, stop, first, last, row_ptr, src, images, wrapped, table, cutoff2,
    out_ptr, out_src, out_dst, vectors, numbers,
):  # fmt: skip
    """Write the edges of rows ``start:stop`` to places ``first:last``.

    ``numbers`` gets the place of each listed edge, or -1. Return the number of a listed edge
    between coincident atoms, or -1.
    """
    p = first
    coincident = -1
    for i in range(start, stop):
        xi, yi, zi = wrapped[i, 0], wrapped[i, 1], wrapped[i, 2]
        for k in range(row_ptr[i], row_ptr[i + 1]):
            j = src[k]
            t = images[k]
            x = (wrapped[j, 0] - xi) + table[t, 0]
            y = (wrapped[j, 1] - yi) + table[t, 1]
            z = (wrapped[j, 2] - zi) + table[t, 2]
            r2 = (x * x + y * y) + z * z
            # Writing always and moving on only if kept spares a branch nobody can predict.
            if p < last:
                out_src[p] = j
                out_dst[p] = i
                vectors[p, 0] = x
                vectors[p, 1] = y
                vectors[p, 2] = z
            keep = (r2 < cutoff2) & (r2 > COINCIDENT2)
            numbers[k] = p if keep else -1
            p += keep
            if r2 <= COINCIDENT2:
                coincident = k
        out_ptr[i + 1] = p
    return coincident


@_compiled
def write_order(start, stop, row_ptr, order, numbers, source_ptr, out_order):
    """Numbers of the written edges, grouped by source, for sources ``start:stop``."""
    for j in range(start, stop):
        p = source_ptr[j]
        last = source_ptr[j + 1]
        for k in range(row_ptr[j], row_ptr[j + 1]):
            number = numbers[order[k]]
            if p < last:
                out_order[p] = number
            p += number >= 0
