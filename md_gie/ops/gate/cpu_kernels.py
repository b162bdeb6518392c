"""Numba kernels of the gated residual.

Arrays are (F, E, columns): ``y0``, ``z0`` with the rows l = 0..L of m = 0, ``y1``, ``z1`` with the
rows of m = -1 and then of m = +1, l = 1..L; ``gates`` (F, E, L Cf), ``share`` (F, E, Cf) is the
sigmoid of the scalar row.
"""

import numba

_OPTIONS = {
    "parallel": True,
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "nsz"},
}


@numba.njit(**_OPTIONS)
def forward(y0, y1, z0, z1, gates, share, x0, x1):
    """Residual plus gated features."""
    width, columns = share.shape[2], gates.shape[2]
    n_edges = y0.shape[1]
    for item in numba.prange(y0.shape[0] * n_edges):
        f, e = item // n_edges, item % n_edges
        for c in range(width):
            x0[f, e, c] = y0[f, e, c] + z0[f, e, c] * share[f, e, c]
        for c in range(columns):
            gate = gates[f, e, c]
            x0[f, e, width + c] = y0[f, e, width + c] + gate * z0[f, e, width + c]
            x1[f, e, c] = y1[f, e, c] + gate * z1[f, e, c]
            x1[f, e, columns + c] = y1[f, e, columns + c] + gate * z1[f, e, columns + c]


@numba.njit(**_OPTIONS)
def backward(g0, g1, z0, z1, gates, share, d_z0, d_z1, d_logits):
    """Gradients for the features and for the gates' logits."""
    width, columns = share.shape[2], gates.shape[2]
    n_edges = g0.shape[1]
    for item in numba.prange(g0.shape[0] * n_edges):
        f, e = item // n_edges, item % n_edges
        for c in range(width):
            s = share[f, e, c]
            d_z0[f, e, c] = g0[f, e, c] * s * (1 + z0[f, e, c] * (1 - s))
        for c in range(columns):
            gate = gates[f, e, c]
            a, b, d = g0[f, e, width + c], g1[f, e, c], g1[f, e, columns + c]
            total = a * z0[f, e, width + c] + b * z1[f, e, c] + d * z1[f, e, columns + c]
            d_z0[f, e, width + c] = a * gate
            d_z1[f, e, c] = b * gate
            d_z1[f, e, columns + c] = d * gate
            d_logits[f, e, c] = total * gate * (1 - gate)
