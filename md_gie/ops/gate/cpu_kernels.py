"""Numba kernels of the gated residual.

Arrays are (F, E, columns): ``y0``, ``z0`` with the rows l = 0..L of m = 0, ``y1``, ``z1`` with the
rows of m = -1 and then of m = +1, l = 1..L; ``gates`` (F, E, L Cf), ``share`` (F, E, Cf) is the
sigmoid of the scalar row.
"""

import numba

from md_gie.ops.threads import KERNEL_OPTIONS, Kernel

_FASTMATH = {"contract", "nsz"}


@numba.njit(fastmath=_FASTMATH, **KERNEL_OPTIONS)
def _forward(first, last, y0, y1, z0, z1, gates, share, x0, x1):
    """Residual plus gated features."""
    width, columns = share.shape[2], gates.shape[2]
    for f in range(y0.shape[0]):
        for e in range(first, last):
            y, z, x, s = y0[f, e], z0[f, e], x0[f, e], share[f, e]
            for c in range(width):
                x[c] = y[c] + z[c] * s[c]
            gate = gates[f, e]
            y, z, x = y0[f, e, width:], z0[f, e, width:], x0[f, e, width:]
            for c in range(columns):
                x[c] = y[c] + gate[c] * z[c]
            for sign in range(2):
                begin, end = sign * columns, (sign + 1) * columns
                y, z, x = y1[f, e, begin:end], z1[f, e, begin:end], x1[f, e, begin:end]
                for c in range(columns):
                    x[c] = y[c] + gate[c] * z[c]


@numba.njit(parallel=True, **KERNEL_OPTIONS)
def _forward_blocks(bounds, y0, y1, z0, z1, gates, share, x0, x1):
    for block in numba.prange(bounds.shape[0] - 1):
        _forward(bounds[block], bounds[block + 1], y0, y1, z0, z1, gates, share, x0, x1)


forward = Kernel(_forward, _forward_blocks)


@numba.njit(fastmath=_FASTMATH, **KERNEL_OPTIONS)
def _backward(first, last, g0, g1, z0, z1, gates, share, d_z0, d_z1, d_logits):
    """Gradients for the features and for the gates' logits."""
    width, columns = share.shape[2], gates.shape[2]
    for f in range(g0.shape[0]):
        for e in range(first, last):
            g, z, d_z, s = g0[f, e], z0[f, e], d_z0[f, e], share[f, e]
            for c in range(width):
                d_z[c] = g[c] * s[c] * (1 + z[c] * (1 - s[c]))
            gate, slope = gates[f, e], d_logits[f, e]
            g, z, d_z = g0[f, e, width:], z0[f, e, width:], d_z0[f, e, width:]
            for c in range(columns):
                slope[c] = g[c] * z[c] * gate[c] * (1 - gate[c])
                d_z[c] = g[c] * gate[c]
            for sign in range(2):
                begin, end = sign * columns, (sign + 1) * columns
                g, z, d_z = g1[f, e, begin:end], z1[f, e, begin:end], d_z1[f, e, begin:end]
                for c in range(columns):
                    slope[c] += g[c] * z[c] * gate[c] * (1 - gate[c])
                    d_z[c] = g[c] * gate[c]


@numba.njit(parallel=True, **KERNEL_OPTIONS)
def _backward_blocks(bounds, g0, g1, z0, z1, gates, share, d_z0, d_z1, d_logits):
    for block in numba.prange(bounds.shape[0] - 1):
        _backward(
            bounds[block], bounds[block + 1], g0, g1, z0, z1, gates, share, d_z0, d_z1, d_logits
        )


backward = Kernel(_backward, _backward_blocks)
