"""Numba kernels that rotate edge features back and sum them; layouts as in ``cpu_kernels``."""

import numba

from md_gie.ops.threads import KERNEL_OPTIONS, Kernel

_FASTMATH = {"contract", "reassoc", "nsz", "arcp"}


@numba.njit(fastmath=_FASTMATH, **KERNEL_OPTIONS)
def _rotate_out(first, last, y0, y1, weights, frames, row_ptr, out):
    """Rotate back, weight by ``weights`` (E, F), sum over each row's edges into (N, D, F, Cf)."""
    streams, degrees, width = y0.shape[0], y0.shape[2], y0.shape[3]
    for i in range(first, last):
        for e in range(row_ptr[i], row_ptr[i + 1]):
            frame = frames[e]
            for f in range(streams):
                weight = weights[e, f]
                x, target = y0[f, e, 0], out[i, 0, f]
                for c in range(width):
                    target[c] += weight * x[c]
                for degree in range(1, degrees):
                    size = 2 * degree + 1
                    offset = 3 * (degree * degree - 1)
                    x = y0[f, e, degree]
                    y, z = y1[f, e, 0, degree - 1], y1[f, e, 1, degree - 1]
                    for m in range(size):
                        w0 = weight * frame[offset + m]
                        w1 = weight * frame[offset + size + m]
                        w2 = weight * frame[offset + 2 * size + m]
                        target = out[i, degree * degree + m, f]
                        for c in range(width):
                            target[c] += w0 * x[c] + w1 * y[c] + w2 * z[c]


@numba.njit(parallel=True, **KERNEL_OPTIONS)
def _rotate_out_blocks(bounds, y0, y1, weights, frames, row_ptr, out):
    for block in numba.prange(bounds.shape[0] - 1):
        _rotate_out(bounds[block], bounds[block + 1], y0, y1, weights, frames, row_ptr, out)


rotate_out = Kernel(_rotate_out, _rotate_out_blocks)


@numba.njit(fastmath=_FASTMATH, **KERNEL_OPTIONS)
def _rotate_out_backward(
    first, last, grad, y0, y1, weights, frames, row_ptr, d_y0, d_y1, d_weights, d_frames
):
    """Gradients of :func:`rotate_out` for incoming ``grad`` (N, D, F, Cf)."""
    streams, degrees, width = y0.shape[0], y0.shape[2], y0.shape[3]
    for i in range(first, last):
        for e in range(row_ptr[i], row_ptr[i + 1]):
            frame, d_frame = frames[e], d_frames[e]
            for f in range(streams):
                weight = weights[e, f]
                x, g, dx = y0[f, e, 0], grad[i, 0, f], d_y0[f, e, 0]
                total = weight * 0
                for c in range(width):
                    total += x[c] * g[c]
                    dx[c] = weight * g[c]
                for degree in range(1, degrees):
                    size = 2 * degree + 1
                    offset = 3 * (degree * degree - 1)
                    x, dx = y0[f, e, degree], d_y0[f, e, degree]
                    y, dy = y1[f, e, 0, degree - 1], d_y1[f, e, 0, degree - 1]
                    z, dz = y1[f, e, 1, degree - 1], d_y1[f, e, 1, degree - 1]
                    for c in range(width):
                        dx[c] = 0
                        dy[c] = 0
                        dz[c] = 0
                    for m in range(size):
                        v0 = frame[offset + m]
                        v1 = frame[offset + size + m]
                        v2 = frame[offset + 2 * size + m]
                        g = grad[i, degree * degree + m, f]
                        s0, s1, s2 = weight * 0, weight * 0, weight * 0
                        for c in range(width):
                            h = weight * g[c]
                            dx[c] += v0 * h
                            dy[c] += v1 * h
                            dz[c] += v2 * h
                            s0 += x[c] * g[c]
                            s1 += y[c] * g[c]
                            s2 += z[c] * g[c]
                        total += v0 * s0 + v1 * s1 + v2 * s2
                        d_frame[offset + m] += weight * s0
                        d_frame[offset + size + m] += weight * s1
                        d_frame[offset + 2 * size + m] += weight * s2
                d_weights[e, f] = total


@numba.njit(parallel=True, **KERNEL_OPTIONS)
def _rotate_out_backward_blocks(
    bounds, grad, y0, y1, weights, frames, row_ptr, d_y0, d_y1, d_weights, d_frames
):
    for block in numba.prange(bounds.shape[0] - 1):
        _rotate_out_backward(
            bounds[block],
            bounds[block + 1],
            grad,
            y0,
            y1,
            weights,
            frames,
            row_ptr,
            d_y0,
            d_y1,
            d_weights,
            d_frames,
        )


rotate_out_backward = Kernel(_rotate_out_backward, _rotate_out_backward_blocks)
