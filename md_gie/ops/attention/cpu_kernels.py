"""Numba kernels of the attention weights: rows of destinations, then of sources, in parallel."""

import numba
import numpy as np

from md_gie.ops.attention.reference import MAX_EXPONENT
from md_gie.ops.threads import KERNEL_OPTIONS, Kernel

_FASTMATH = {"contract", "reassoc", "nsz"}


@numba.njit(fastmath=_FASTMATH, **KERNEL_OPTIONS)
def _forward(first, last, query, key, bias, envelope, offset, row_ptr, src, out):
    """Weights (E, G) for query and key (N, G, h), G = F A groups."""
    groups, width = query.shape[1], query.shape[2]
    for i in range(first, last):
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


@numba.njit(parallel=True, **KERNEL_OPTIONS)
def _forward_blocks(bounds, query, key, bias, envelope, offset, row_ptr, src, out):
    for block in numba.prange(bounds.shape[0] - 1):
        _forward(
            bounds[block], bounds[block + 1], query, key, bias, envelope, offset, row_ptr, src, out
        )


forward = Kernel(_forward, _forward_blocks)


@numba.njit(fastmath=_FASTMATH, **KERNEL_OPTIONS)
def _backward_destinations(
    first, last, grad, weights, query, key, envelope, row_ptr, src, d_query, d_bias, d_envelope
):
    """Gradients for the logits (into ``d_bias``), the queries and the envelope."""
    groups, width = query.shape[1], query.shape[2]
    for i in range(first, last):
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


@numba.njit(parallel=True, **KERNEL_OPTIONS)
def _backward_destinations_blocks(
    bounds, grad, weights, query, key, envelope, row_ptr, src, d_query, d_bias, d_envelope
):
    for block in numba.prange(bounds.shape[0] - 1):
        _backward_destinations(
            bounds[block],
            bounds[block + 1],
            grad,
            weights,
            query,
            key,
            envelope,
            row_ptr,
            src,
            d_query,
            d_bias,
            d_envelope,
        )


backward_destinations = Kernel(_backward_destinations, _backward_destinations_blocks)


@numba.njit(fastmath=_FASTMATH, **KERNEL_OPTIONS)
def _backward_sources(first, last, d_bias, query, source_ptr, source_order, dst, d_key):
    """Gradient for the keys."""
    groups, width = query.shape[1], query.shape[2]
    for j in range(first, last):
        for i_order in range(source_ptr[j], source_ptr[j + 1]):
            e = source_order[i_order]
            for g in range(groups):
                slope = d_bias[e, g]
                q, dk = query[dst[e], g], d_key[j, g]
                for c in range(width):
                    dk[c] += slope * q[c]


@numba.njit(parallel=True, **KERNEL_OPTIONS)
def _backward_sources_blocks(bounds, d_bias, query, source_ptr, source_order, dst, d_key):
    for block in numba.prange(bounds.shape[0] - 1):
        _backward_sources(
            bounds[block], bounds[block + 1], d_bias, query, source_ptr, source_order, dst, d_key
        )


backward_sources = Kernel(_backward_sources, _backward_sources_blocks)
