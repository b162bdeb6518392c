"""Triton kernels of the attention weights; arrays as in the numba kernels beside them.

``query`` and ``key`` are (N, G, WIDTH) with G = F A groups, ``bias`` and ``out`` (E, G). One
program owns each destination, or each source for the gradient of the keys.
"""

import triton
import triton.language as tl

from md_gie.ops.triton_common import clear_tail


@triton.jit
def forward(
    query, key, bias, envelope, offset, row_ptr, src, out, n_rows, n_edges,
    MAX_EXPONENT: tl.constexpr, G: tl.constexpr, WIDTH: tl.constexpr, ACC: tl.constexpr,
    BE: tl.constexpr, BG: tl.constexpr, BW: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    """Weights of one destination's edges; logits wait in ``out`` between the passes."""
    row = tl.program_id(0).to(tl.int64)
    if row >= n_rows:
        clear_tail(out, G, tl.load(row_ptr + n_rows).to(tl.int64), n_edges, row - n_rows, TAIL)
        return
    begin, end = tl.load(row_ptr + row).to(tl.int64), tl.load(row_ptr + row + 1).to(tl.int64)
    g, c = tl.arange(0, BG), tl.arange(0, BW)
    lane = g[:, None] * WIDTH + c[None, :]
    kept = (g < G)[:, None] & (c < WIDTH)[None, :]
    q = tl.load(query + row * (G * WIDTH) + lane, kept, 0.0)
    zeta = tl.load(offset + g, g < G, 1.0)
    peak = tl.log(zeta)
    for start in range(begin, end, BE):
        e = start + tl.arange(0, BE)
        live = e < end
        mask = live[:, None] & (g < G)[None, :]
        j = tl.load(src + e, live, 0).to(tl.int64)
        k = tl.load(
            key + j[:, None, None] * (G * WIDTH) + lane[None, :, :],
            live[:, None, None] & kept[None, :, :], 0.0,
        )  # fmt: skip
        at = e[:, None] * G + g[None, :]
        logit = tl.sum(q[None, :, :] * k, 2) + tl.load(bias + at, mask, 0.0)
        tl.store(out + at, logit, mask)
        w = tl.load(envelope + e, live, 0.0)
        term = tl.where((w > 0)[:, None], logit + 2 * tl.log(tl.where(w > 0, w, 1.0))[:, None],
                        -float("inf"))  # fmt: skip
        peak = tl.maximum(peak, tl.max(tl.where(mask, term, -float("inf")), 0))
    total = tl.zeros((BE, BG), ACC)
    tl.debug_barrier()
    for start in range(begin, end, BE):
        e = start + tl.arange(0, BE)
        mask = (e < end)[:, None] & (g < G)[None, :]
        at = e[:, None] * G + g[None, :]
        w = tl.load(envelope + e, e < end, 0.0)
        # An edge of vanishing envelope may exceed the peak; the product stays finite.
        exponent = tl.minimum(tl.load(out + at, mask, 0.0) - peak[None, :], MAX_EXPONENT)
        value = tl.where(mask, (w * w)[:, None] * tl.exp(exponent), 0.0)
        tl.store(out + at, value, mask)
        total += value
    norm = zeta * tl.exp(-peak) + tl.sum(total, 0)
    tl.debug_barrier()
    for start in range(begin, end, BE):
        e = start + tl.arange(0, BE)
        mask = (e < end)[:, None] & (g < G)[None, :]
        at = e[:, None] * G + g[None, :]
        tl.store(out + at, tl.load(out + at, mask, 0.0) / norm[None, :], mask)


@triton.jit
def backward_destinations(
    grad, weights, key, envelope, row_ptr, src, d_query, d_bias, d_envelope, n_rows, n_edges,
    G: tl.constexpr, WIDTH: tl.constexpr, ACC: tl.constexpr, BE: tl.constexpr, BG: tl.constexpr,
    BW: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    """Gradients for the logits (into ``d_bias``), the query and the envelope."""
    row = tl.program_id(0).to(tl.int64)
    if row >= n_rows:
        tail = tl.load(row_ptr + n_rows).to(tl.int64)
        clear_tail(d_bias, G, tail, n_edges, row - n_rows, TAIL)
        clear_tail(d_envelope, 1, tail, n_edges, row - n_rows, TAIL)
        return
    begin, end = tl.load(row_ptr + row).to(tl.int64), tl.load(row_ptr + row + 1).to(tl.int64)
    g, c = tl.arange(0, BG), tl.arange(0, BW)
    lane = g[:, None] * WIDTH + c[None, :]
    kept = (g < G)[:, None] & (c < WIDTH)[None, :]
    means = tl.zeros((BE, BG), ACC)
    for start in range(begin, end, BE):
        e = start + tl.arange(0, BE)
        mask = (e < end)[:, None] & (g < G)[None, :]
        at = e[:, None] * G + g[None, :]
        means += tl.load(grad + at, mask, 0.0) * tl.load(weights + at, mask, 0.0)
    mean = tl.sum(means, 0)[None, :]
    sums = tl.zeros((BE, BG, BW), ACC)
    for start in range(begin, end, BE):
        e = start + tl.arange(0, BE)
        live = e < end
        mask = live[:, None] & (g < G)[None, :]
        at = e[:, None] * G + g[None, :]
        slope = tl.load(weights + at, mask, 0.0) * (tl.load(grad + at, mask, 0.0) - mean)
        tl.store(d_bias + at, slope, mask)
        w = tl.load(envelope + e, live, 0.0)
        # An edge at the cutoff has weight 0 and envelope 0: the ratio tends to 0.
        total = 2 * tl.sum(tl.where(mask, slope, 0.0), 1)
        tl.store(d_envelope + e, tl.where(w > 0, total / tl.where(w > 0, w, 1.0), 0.0), live)
        j = tl.load(src + e, live, 0).to(tl.int64)
        k = tl.load(
            key + j[:, None, None] * (G * WIDTH) + lane[None, :, :],
            live[:, None, None] & kept[None, :, :], 0.0,
        )  # fmt: skip
        sums += slope[:, :, None] * k
    tl.store(d_query + row * (G * WIDTH) + lane, tl.sum(sums, 0), kept)


@triton.jit
def backward_sources(
    d_bias, query, source_ptr, source_order, dst, d_key, G: tl.constexpr, WIDTH: tl.constexpr,
    ACC: tl.constexpr, BE: tl.constexpr, BG: tl.constexpr, BW: tl.constexpr,
):  # fmt: skip
    """Gradient for the keys."""
    j = tl.program_id(0).to(tl.int64)
    begin, end = tl.load(source_ptr + j).to(tl.int64), tl.load(source_ptr + j + 1).to(tl.int64)
    g, c = tl.arange(0, BG), tl.arange(0, BW)
    lane = g[:, None] * WIDTH + c[None, :]
    kept = (g < G)[:, None] & (c < WIDTH)[None, :]
    sums = tl.zeros((BE, BG, BW), ACC)
    for start in range(begin, end, BE):
        place = start + tl.arange(0, BE)
        live = place < end
        e = tl.load(source_order + place, live, 0).to(tl.int64)
        i = tl.load(dst + e, live, 0).to(tl.int64)
        mask = live[:, None] & (g < G)[None, :]
        slope = tl.load(d_bias + e[:, None] * G + g[None, :], mask, 0.0)
        q = tl.load(
            query + i[:, None, None] * (G * WIDTH) + lane[None, :, :],
            live[:, None, None] & kept[None, :, :], 0.0,
        )  # fmt: skip
        sums += slope[:, :, None] * q
    tl.store(d_key + j * (G * WIDTH) + lane, tl.sum(sums, 0), kept)
