"""Triton kernels out of edge frames, ``|m| <= 1``: weights, rotation, sum over each destination.

Array layouts as in :mod:`md_gie.ops.rotation.triton_kernels`; ``weights`` (E, HEADS), head a owns
the hidden channels ``a HEAD`` to ``(a + 1) HEAD - 1``. One program owns each destination.
"""

import triton
import triton.language as tl

from md_gie.ops.rotation.triton_kernels import edge_rows
from md_gie.ops.triton_common import clear_tail


@triton.jit
def forward(
    y0, y1, weights, frames, row_ptr, out, n_edges, L: tl.constexpr, H: tl.constexpr,
    WIDTH: tl.constexpr, HEADS: tl.constexpr, ACC: tl.constexpr, BE: tl.constexpr,
    BC: tl.constexpr,
):  # fmt: skip
    """Sum one destination and channel block."""
    D: tl.constexpr = (L + 1) * (L + 1)
    row = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1) * BC + tl.arange(0, BC)
    inside = h < H
    begin, end = tl.load(row_ptr + row).to(tl.int64), tl.load(row_ptr + row + 1).to(tl.int64)
    sums = ()
    for _ in tl.static_range(D):
        sums = sums + (tl.zeros((BE, BC), ACC),)
    for start in range(begin, end, BE):
        e = start + tl.arange(0, BE)
        live = e < end
        mask = live[:, None] & inside[None, :]
        scale = tl.load(weights + e[:, None] * HEADS + (h // (H // HEADS))[None, :], mask, 0.0)
        from0, from1 = edge_rows(e, h, n_edges, L, WIDTH)
        added = (sums[0] + scale * tl.load(y0 + from0, mask, 0.0),)
        for l in tl.static_range(1, L + 1):
            zonal = scale * tl.load(y0 + from0 + l * WIDTH, mask, 0.0)
            minus = scale * tl.load(y1 + from1 + (l - 1) * WIDTH, mask, 0.0)
            plus = scale * tl.load(y1 + from1 + (L + l - 1) * WIDTH, mask, 0.0)
            for m in tl.static_range(2 * l + 1):
                w = frames + e * (3 * (D - 1)) + (3 * (l * l - 1) + m)
                total = sums[l * l + m] + tl.load(w, live, 0.0)[:, None] * zonal
                total += tl.load(w + (2 * l + 1), live, 0.0)[:, None] * minus
                total += tl.load(w + 2 * (2 * l + 1), live, 0.0)[:, None] * plus
                added = added + (total,)
        sums = added
    for r in tl.static_range(D):
        tl.store(out + row * (D * H) + r * H + h, tl.sum(sums[r], 0), inside)


@triton.jit
def backward(
    grad, y0, y1, weights, frames, row_ptr, d_y0, d_y1, d_weights, d_frames, n_rows, n_edges,
    L: tl.constexpr, H: tl.constexpr, WIDTH: tl.constexpr, HEADS: tl.constexpr,
    ACC: tl.constexpr, BE: tl.constexpr, BC: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    """All gradients of one destination's edges; the last TAIL programs clear those of padding."""
    D: tl.constexpr = (L + 1) * (L + 1)
    FRAME: tl.constexpr = 3 * (D - 1)
    row = tl.program_id(0).to(tl.int64)
    if row >= n_rows:
        part = row - n_rows
        tail = tl.load(row_ptr + n_rows).to(tl.int64)
        for f in tl.static_range(H // WIDTH):
            first = f * n_edges.to(tl.int64)
            clear_tail(d_y0, (L + 1) * WIDTH, first + tail, first + n_edges, part, TAIL)
            clear_tail(d_y1, 2 * L * WIDTH, first + tail, first + n_edges, part, TAIL)
        clear_tail(d_weights, HEADS, tail, n_edges, part, TAIL)
        clear_tail(d_frames, FRAME, tail, n_edges, part, TAIL)
        return
    begin, end = tl.load(row_ptr + row).to(tl.int64), tl.load(row_ptr + row + 1).to(tl.int64)
    frame_column = tl.arange(0, triton.next_power_of_2(FRAME))
    head_column = tl.arange(0, triton.next_power_of_2(HEADS))
    zero = tl.zeros((BE, BC), ACC)
    for start in range(begin, end, BE):
        e = start + tl.arange(0, BE)
        live = e < end
        d_frame = tl.zeros((BE, frame_column.shape[0]), ACC)
        d_weight = tl.zeros((BE, head_column.shape[0]), ACC)
        for block in tl.static_range((H + BC - 1) // BC):
            h = block * BC + tl.arange(0, BC)
            inside = h < H
            mask = live[:, None] & inside[None, :]
            head = (h // (H // HEADS))[None, :]
            scale = tl.load(weights + e[:, None] * HEADS + head, mask, 0.0)
            at0, at1 = edge_rows(e, h, n_edges, L, WIDTH)
            source = grad + row * (D * H) + h
            g = tl.load(source, inside, 0.0)[None, :]
            product = g * tl.load(y0 + at0, mask, 0.0)
            tl.store(d_y0 + at0, g * scale, mask)
            for l in tl.static_range(1, L + 1):
                zonal = tl.load(y0 + at0 + l * WIDTH, mask, 0.0)
                minus = tl.load(y1 + at1 + (l - 1) * WIDTH, mask, 0.0)
                plus = tl.load(y1 + at1 + (L + l - 1) * WIDTH, mask, 0.0)
                a, b, c = zero, zero, zero
                for m in tl.static_range(2 * l + 1):
                    g = tl.load(source + (l * l + m) * H, inside, 0.0)[None, :]
                    w = frames + e * FRAME + (3 * (l * l - 1) + m)
                    a += tl.load(w, live, 0.0)[:, None] * g
                    b += tl.load(w + (2 * l + 1), live, 0.0)[:, None] * g
                    c += tl.load(w + 2 * (2 * l + 1), live, 0.0)[:, None] * g
                    g *= scale
                    first = frame_column[None, :] - (3 * (l * l - 1) + m)
                    d_frame += tl.where(first == 0, tl.sum(zonal * g, 1)[:, None], 0.0)
                    d_frame += tl.where(first == 2 * l + 1, tl.sum(minus * g, 1)[:, None], 0.0)
                    d_frame += tl.where(first == 2 * (2 * l + 1), tl.sum(plus * g, 1)[:, None], 0.0)
                product += a * zonal + b * minus + c * plus
                tl.store(d_y0 + at0 + l * WIDTH, a * scale, mask)
                tl.store(d_y1 + at1 + (l - 1) * WIDTH, b * scale, mask)
                tl.store(d_y1 + at1 + (L + l - 1) * WIDTH, c * scale, mask)
            for a in tl.static_range(HEADS):
                s = tl.sum(tl.where(head == a, product, 0.0), 1)[:, None]
                d_weight += tl.where(head_column[None, :] == a, s, 0.0)
        tl.store(
            d_frames + e[:, None] * FRAME + frame_column[None, :], d_frame,
            live[:, None] & (frame_column < FRAME)[None, :],
        )  # fmt: skip
        tl.store(
            d_weights + e[:, None] * HEADS + head_column[None, :], d_weight,
            live[:, None] & (head_column < HEADS)[None, :],
        )  # fmt: skip
