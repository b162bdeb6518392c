"""Numba kernels of the rotations for ``|m| <= 1``.

Array layouts: ``nodes`` (N, D, F, Cf); ``frames`` (E, 3 (D - 1)), degree l at offset 3 (l² - 1)
with rows k = 0, -1, +1 of length 2l + 1; ``y0`` (F, E, L + 1, Cf) holds the rows m = 0, ``y1``
(F, E, 2, L, Cf) the rows m = -1, +1 of the degrees 1..L.

Backward kernels of gathers run over sources, so that one thread owns each gradient row and no
atomics are needed. ``i_`` is an index, ``k0``/``k1`` the radial kernel of m = 0 and m = ±1.
"""

import numba
import numpy as np

from md_gie.ops.threads import KERNEL_OPTIONS, Kernel

_FASTMATH = {"contract", "reassoc", "nsz", "arcp"}


@numba.njit(fastmath=_FASTMATH, **KERNEL_OPTIONS)
def _to_frame(nodes, j, frames, e, t0, tm, tp):
    """Rotate node j into the frame of edge e: rows m = 0, -1, +1 of every degree."""
    streams, width = t0.shape[1], t0.shape[2]
    for f in range(streams):
        for c in range(width):
            t0[0, f, c] = nodes[j, 0, f, c]
    for degree in range(1, t0.shape[0]):
        size = 2 * degree + 1
        offset = 3 * (degree * degree - 1)
        row = degree * degree
        for f in range(streams):
            a, b, d = t0[degree, f], tm[degree - 1, f], tp[degree - 1, f]
            x = nodes[j, row, f]
            w0, w1, w2 = frames[e, offset], frames[e, offset + size], frames[e, offset + 2 * size]
            for c in range(width):
                a[c] = w0 * x[c]
                b[c] = w1 * x[c]
                d[c] = w2 * x[c]
            for m in range(1, size):
                x = nodes[j, row + m, f]
                w0 = frames[e, offset + m]
                w1 = frames[e, offset + size + m]
                w2 = frames[e, offset + 2 * size + m]
                for c in range(width):
                    a[c] += w0 * x[c]
                    b[c] += w1 * x[c]
                    d[c] += w2 * x[c]


@numba.njit(fastmath=_FASTMATH, **KERNEL_OPTIONS)
def _to_frame_backward(nodes, j, frames, e, t0, tm, tp, d_nodes, d_frames):
    """Add the gradients of :func:`_to_frame`; ``t0``, ``tm``, ``tp`` hold incoming gradients."""
    streams, width = t0.shape[1], t0.shape[2]
    for f in range(streams):
        for c in range(width):
            d_nodes[j, 0, f, c] += t0[0, f, c]
    for degree in range(1, t0.shape[0]):
        size = 2 * degree + 1
        offset = 3 * (degree * degree - 1)
        row = degree * degree
        for f in range(streams):
            a, b, d = t0[degree, f], tm[degree - 1, f], tp[degree - 1, f]
            for m in range(size):
                x, dx = nodes[j, row + m, f], d_nodes[j, row + m, f]
                w0 = frames[e, offset + m]
                w1 = frames[e, offset + size + m]
                w2 = frames[e, offset + 2 * size + m]
                s0, s1, s2 = w0 * 0, w0 * 0, w0 * 0
                for c in range(width):
                    dx[c] += w0 * a[c] + w1 * b[c] + w2 * d[c]
                    s0 += x[c] * a[c]
                    s1 += x[c] * b[c]
                    s2 += x[c] * d[c]
                d_frames[e, offset + m] += s0
                d_frames[e, offset + size + m] += s1
                d_frames[e, offset + 2 * size + m] += s2


@numba.njit(fastmath=_FASTMATH, **KERNEL_OPTIONS)
def _rotate_in_scaled(first, last, nodes, frames, radial, src, y0, y1):
    """Gather, rotate, multiply by ``radial`` (E, L+1, F, Cf)."""
    degrees, streams, width = radial.shape[1], radial.shape[2], radial.shape[3]
    t0 = np.empty((degrees, streams, width), nodes.dtype)
    tm = np.empty((degrees - 1, streams, width), nodes.dtype)
    tp = np.empty((degrees - 1, streams, width), nodes.dtype)
    for e in range(first, last):
        _to_frame(nodes, src[e], frames, e, t0, tm, tp)
        for f in range(streams):
            for degree in range(degrees):
                scale = radial[e, degree, f]
                for c in range(width):
                    y0[f, e, degree, c] = t0[degree, f, c] * scale[c]
                if degree > 0:
                    for c in range(width):
                        y1[f, e, 0, degree - 1, c] = tm[degree - 1, f, c] * scale[c]
                        y1[f, e, 1, degree - 1, c] = tp[degree - 1, f, c] * scale[c]


@numba.njit(parallel=True, **KERNEL_OPTIONS)
def _rotate_in_scaled_blocks(bounds, nodes, frames, radial, src, y0, y1):
    for block in numba.prange(bounds.shape[0] - 1):
        _rotate_in_scaled(bounds[block], bounds[block + 1], nodes, frames, radial, src, y0, y1)


rotate_in_scaled = Kernel(_rotate_in_scaled, _rotate_in_scaled_blocks)


@numba.njit(fastmath=_FASTMATH, **KERNEL_OPTIONS)
def _rotate_in_scaled_backward(
    first,
    last,
    nodes,
    frames,
    radial,
    source_ptr,
    source_order,
    g0,
    g1,
    d_nodes,
    d_frames,
    d_radial,
):
    """Gradients of :func:`rotate_in_scaled` for incoming ``g0``, ``g1``."""
    degrees, streams, width = radial.shape[1], radial.shape[2], radial.shape[3]
    for j in range(first, last):
        t0 = np.empty((degrees, streams, width), nodes.dtype)
        tm = np.empty((degrees - 1, streams, width), nodes.dtype)
        tp = np.empty((degrees - 1, streams, width), nodes.dtype)
        for i_order in range(source_ptr[j], source_ptr[j + 1]):
            e = source_order[i_order]
            _to_frame(nodes, j, frames, e, t0, tm, tp)
            for f in range(streams):
                for degree in range(degrees):
                    scale, d_scale = radial[e, degree, f], d_radial[e, degree, f]
                    for c in range(width):
                        g = g0[f, e, degree, c]
                        d_scale[c] = t0[degree, f, c] * g
                        t0[degree, f, c] = g * scale[c]
                    if degree > 0:
                        for c in range(width):
                            g = g1[f, e, 0, degree - 1, c]
                            h = g1[f, e, 1, degree - 1, c]
                            d_scale[c] += tm[degree - 1, f, c] * g + tp[degree - 1, f, c] * h
                            tm[degree - 1, f, c] = g * scale[c]
                            tp[degree - 1, f, c] = h * scale[c]
            _to_frame_backward(nodes, j, frames, e, t0, tm, tp, d_nodes, d_frames)


@numba.njit(parallel=True, **KERNEL_OPTIONS)
def _rotate_in_scaled_backward_blocks(
    bounds, nodes, frames, radial, source_ptr, source_order, g0, g1, d_nodes, d_frames, d_radial
):
    for block in numba.prange(bounds.shape[0] - 1):
        _rotate_in_scaled_backward(
            bounds[block],
            bounds[block + 1],
            nodes,
            frames,
            radial,
            source_ptr,
            source_order,
            g0,
            g1,
            d_nodes,
            d_frames,
            d_radial,
        )


rotate_in_scaled_backward = Kernel(_rotate_in_scaled_backward, _rotate_in_scaled_backward_blocks)


@numba.njit(fastmath=_FASTMATH, **KERNEL_OPTIONS)
def _rotate_in_mixed(first, last, nodes, frames, radial, basis, src, y0, y1):
    """Gather, rotate, mix degrees by the kernel ``radial`` (E, n, q) with basis (q, F, Cf)."""
    degrees, streams, width = y0.shape[2], basis.shape[1], basis.shape[2]
    n_zero = degrees * degrees
    t0 = np.empty((degrees, streams, width), nodes.dtype)
    tm = np.empty((degrees - 1, streams, width), nodes.dtype)
    tp = np.empty((degrees - 1, streams, width), nodes.dtype)
    z0, z1 = np.empty(width, nodes.dtype), np.empty(width, nodes.dtype)
    for e in range(first, last):
        _to_frame(nodes, src[e], frames, e, t0, tm, tp)
        for f in range(streams):
            for rank in range(basis.shape[0]):
                weight = basis[rank, f]
                for i_out in range(degrees):
                    z0[:] = 0
                    for i_in in range(degrees):
                        k = radial[e, i_in * degrees + i_out, rank]
                        x = t0[i_in, f]
                        for c in range(width):
                            z0[c] += k * x[c]
                    out = y0[f, e, i_out]
                    if rank == 0:
                        for c in range(width):
                            out[c] = weight[c] * z0[c]
                    else:
                        for c in range(width):
                            out[c] += weight[c] * z0[c]
                for i_out in range(degrees - 1):
                    z0[:] = 0
                    z1[:] = 0
                    for i_in in range(degrees - 1):
                        k = radial[e, n_zero + i_in * (degrees - 1) + i_out, rank]
                        x, y = tm[i_in, f], tp[i_in, f]
                        for c in range(width):
                            z0[c] += k * x[c]
                            z1[c] += k * y[c]
                    out, other = y1[f, e, 0, i_out], y1[f, e, 1, i_out]
                    if rank == 0:
                        for c in range(width):
                            out[c] = weight[c] * z0[c]
                            other[c] = weight[c] * z1[c]
                    else:
                        for c in range(width):
                            out[c] += weight[c] * z0[c]
                            other[c] += weight[c] * z1[c]


@numba.njit(parallel=True, **KERNEL_OPTIONS)
def _rotate_in_mixed_blocks(bounds, nodes, frames, radial, basis, src, y0, y1):
    for block in numba.prange(bounds.shape[0] - 1):
        _rotate_in_mixed(
            bounds[block], bounds[block + 1], nodes, frames, radial, basis, src, y0, y1
        )


rotate_in_mixed = Kernel(_rotate_in_mixed, _rotate_in_mixed_blocks)


@numba.njit(fastmath=_FASTMATH, **KERNEL_OPTIONS)
def _rotate_in_mixed_backward(
    first,
    last,
    nodes,
    frames,
    radial,
    basis,
    source_ptr,
    source_order,
    g0,
    g1,
    d_nodes,
    d_frames,
    d_radial,
):
    """Gradients of :func:`rotate_in_mixed` for incoming ``g0``, ``g1``."""
    degrees, streams, width = g0.shape[2], basis.shape[1], basis.shape[2]
    n_zero = degrees * degrees
    for j in range(first, last):
        t0 = np.empty((degrees, streams, width), nodes.dtype)
        tm = np.empty((degrees - 1, streams, width), nodes.dtype)
        tp = np.empty((degrees - 1, streams, width), nodes.dtype)
        u0, um, up = np.empty_like(t0), np.empty_like(tm), np.empty_like(tp)
        z0, z1 = np.empty(width, nodes.dtype), np.empty(width, nodes.dtype)
        for i_order in range(source_ptr[j], source_ptr[j + 1]):
            e = source_order[i_order]
            _to_frame(nodes, j, frames, e, t0, tm, tp)
            u0[:] = 0
            um[:] = 0
            up[:] = 0
            for f in range(streams):
                for rank in range(basis.shape[0]):
                    for i_out in range(degrees):
                        for c in range(width):
                            z0[c] = basis[rank, f, c] * g0[f, e, i_out, c]
                        for i_in in range(degrees):
                            k = radial[e, i_in * degrees + i_out, rank]
                            x, u = t0[i_in, f], u0[i_in, f]
                            total = k * 0
                            for c in range(width):
                                u[c] += k * z0[c]
                                total += x[c] * z0[c]
                            d_radial[e, i_in * degrees + i_out, rank] += total
                    for i_out in range(degrees - 1):
                        for c in range(width):
                            z0[c] = basis[rank, f, c] * g1[f, e, 0, i_out, c]
                            z1[c] = basis[rank, f, c] * g1[f, e, 1, i_out, c]
                        for i_in in range(degrees - 1):
                            entry = n_zero + i_in * (degrees - 1) + i_out
                            k = radial[e, entry, rank]
                            x, y, u, v = tm[i_in, f], tp[i_in, f], um[i_in, f], up[i_in, f]
                            total = k * 0
                            for c in range(width):
                                u[c] += k * z0[c]
                                v[c] += k * z1[c]
                                total += x[c] * z0[c] + y[c] * z1[c]
                            d_radial[e, entry, rank] += total
            _to_frame_backward(nodes, j, frames, e, u0, um, up, d_nodes, d_frames)


@numba.njit(parallel=True, **KERNEL_OPTIONS)
def _rotate_in_mixed_backward_blocks(
    bounds,
    nodes,
    frames,
    radial,
    basis,
    source_ptr,
    source_order,
    g0,
    g1,
    d_nodes,
    d_frames,
    d_radial,
):
    for block in numba.prange(bounds.shape[0] - 1):
        _rotate_in_mixed_backward(
            bounds[block],
            bounds[block + 1],
            nodes,
            frames,
            radial,
            basis,
            source_ptr,
            source_order,
            g0,
            g1,
            d_nodes,
            d_frames,
            d_radial,
        )


rotate_in_mixed_backward = Kernel(_rotate_in_mixed_backward, _rotate_in_mixed_backward_blocks)
