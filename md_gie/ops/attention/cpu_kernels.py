"""Numba kernels of the attention weights: rows of destinations, then of sources, in parallel."""

import numba
import numpy as np

from md_gie.ops.attention.reference import MAX_EXPONENT

_OPTIONS = {
    "parallel": True,
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "nsz"},
}


@numba.njit(**_OPTIONS)
def forward(query, key, bias, envelope, offset, row_ptr, src, out):
    """Weights (E, G) for query and key (N, G, h), G = F A groups."""
    groups, width = query.shape[1], query.shape[2]
    for i in numba.prange(query.shape[0]):
        for g in range(groups):
            peak = np.log(offset[g])
            for e in range(row_ptr[i], row_ptr[i + 1]):
                total = bias[e, g]
                q, k = query[i, g], key[src[e], g]
                for c in range(width):
                    total += q[c] * k[c]
                out[e, g] = total
                if envelope[e] > 0:
                    peak = max(peak, total + 2 * np.log(envelope[e]))
            norm = offset[g] * np.exp(-peak)
            for e in range(row_ptr[i], row_ptr[i + 1]):
                exponent = min(out[e, g] - peak, out.dtype.type(MAX_EXPONENT))
                value = envelope[e] * envelope[e] * np.exp(exponent)
                out[e, g] = value
                norm += value
            for e in range(row_ptr[i], row_ptr[i + 1]):
                out[e, g] /= norm


@numba.njit(**_OPTIONS)
def backward_destinations(
    grad, weights, query, key, envelope, row_ptr, src, d_query, d_bias, d_envelope
):
    """Gradients for the logits (into ``d_bias``), the queries and the envelope."""
    groups, width = query.shape[1], query.shape[2]
    for i in numba.prange(query.shape[0]):
        for g in range(groups):
            mean = grad.dtype.type(0)
            for e in range(row_ptr[i], row_ptr[i + 1]):
                mean += grad[e, g] * weights[e, g]
            dq = d_query[i, g]
            for e in range(row_ptr[i], row_ptr[i + 1]):
                slope = weights[e, g] * (grad[e, g] - mean)
                d_bias[e, g] = slope
                # An edge at the cutoff has weight 0 and envelope 0: the ratio tends to 0.
                if envelope[e] > 0:
                    d_envelope[e] += 2 * slope / envelope[e]
                k = key[src[e], g]
                for c in range(width):
                    dq[c] += slope * k[c]


@numba.njit(**_OPTIONS)
def backward_sources(d_bias, query, source_ptr, source_order, dst, d_key):
    """Gradient for the keys."""
    groups, width = query.shape[1], query.shape[2]
    for j in numba.prange(query.shape[0]):
        for i_order in range(source_ptr[j], source_ptr[j + 1]):
            e = source_order[i_order]
            for g in range(groups):
                slope = d_bias[e, g]
                q, dk = query[dst[e], g], d_key[j, g]
                for c in range(width):
                    dk[c] += slope * q[c]
