"""Triton kernels into edge frames, ``|m| <= 1``: gather, rotation and radial modulation.

Array layouts: ``nodes`` (N, D, H) with H = F Cf hidden channels; ``frames`` (E, 3 (D - 1)), degree
l at offset 3 (l² - 1) with rows k = 0, -1, +1 of length 2l + 1; ``y0`` (F, E, L + 1, Cf) holds the
rows m = 0, ``y1`` (F, E, 2, L, Cf) the rows m = -1, +1 of the degrees 1..L. With RANK = 0 the
modulation is a factor for each degree and channel, ``radial`` (E, L + 1, H); else a kernel between
degrees for m = 0 and one for m = ±1, side by side in ``radial`` (E, n), for each rank of
``basis`` (RANK, H). The backward kernel runs over sources: one program owns each gradient row.
"""

import triton
import triton.language as tl

from md_gie.ops.triton_common import clear_tail


@triton.jit
def edge_rows(e, h, E, L: tl.constexpr, WIDTH: tl.constexpr):
    """Offsets of the first row of edges and channels in ``y0`` and ``y1``."""
    place = (h // WIDTH)[None, :].to(tl.int64) * E + e[:, None]
    c = (h % WIDTH)[None, :]
    return place * ((L + 1) * WIDTH) + c, place * (2 * L * WIDTH) + c


@triton.jit
def forward(
    nodes, frames, radial, basis, src, y0, y1, n_edges, L: tl.constexpr, H: tl.constexpr,
    WIDTH: tl.constexpr, RANK: tl.constexpr, ACC: tl.constexpr, BE: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Rotate and modulate one tile of edges and channels."""
    D: tl.constexpr = (L + 1) * (L + 1)
    COLUMNS: tl.constexpr = D + L * L if RANK == 0 else (D + L * L) * RANK
    e = tl.program_id(0).to(tl.int64) * BE + tl.arange(0, BE)
    h = tl.program_id(1) * BC + tl.arange(0, BC)
    live = e < n_edges
    mask = live[:, None] & (h < H)[None, :]
    j = tl.load(src + e, live, 0).to(tl.int64)
    node = nodes + j[:, None] * (D * H) + h[None, :]
    frame = frames + e * (3 * (D - 1))
    zero = tl.zeros((BE, BC), ACC)
    zonal, minus, plus = (tl.load(node, mask, 0.0),), (), ()
    for l in tl.static_range(1, L + 1):
        a, b, c = zero, zero, zero
        for m in tl.static_range(2 * l + 1):
            x = tl.load(node + (l * l + m) * H, mask, 0.0)
            w = frame + (3 * (l * l - 1) + m)
            a += tl.load(w, live, 0.0)[:, None] * x
            b += tl.load(w + (2 * l + 1), live, 0.0)[:, None] * x
            c += tl.load(w + 2 * (2 * l + 1), live, 0.0)[:, None] * x
        zonal, minus, plus = zonal + (a,), minus + (b,), plus + (c,)
    to0, to1 = edge_rows(e, h, n_edges, L, WIDTH)
    for l in tl.static_range(L + 1):
        if RANK == 0:
            scale = tl.load(radial + e[:, None] * ((L + 1) * H) + l * H + h[None, :], mask, 0.0)
            a = scale * zonal[l]
            if l > 0:
                b, c = scale * minus[l - 1], scale * plus[l - 1]
        else:
            a, b, c = zero, zero, zero
            for r in tl.static_range(RANK):
                channel = tl.load(basis + r * H + h, h < H, 0.0)[None, :]
                s = zero
                for i in tl.static_range(L + 1):
                    w = tl.load(radial + e * COLUMNS + ((i * (L + 1) + l) * RANK + r), live, 0.0)
                    s += w[:, None] * zonal[i]
                a += channel * s
                if l > 0:
                    s, t = zero, zero
                    for i in tl.static_range(L):
                        w = tl.load(
                            radial + e * COLUMNS + (((L + 1) * (L + 1) + i * L + l - 1) * RANK + r),
                            live, 0.0,
                        )  # fmt: skip
                        s += w[:, None] * minus[i]
                        t += w[:, None] * plus[i]
                    b += channel * s
                    c += channel * t
        tl.store(y0 + to0 + l * WIDTH, a, mask)
        if l > 0:
            tl.store(y1 + to1 + (l - 1) * WIDTH, b, mask)
            tl.store(y1 + to1 + (L + l - 1) * WIDTH, c, mask)


@triton.jit
def backward(
    nodes, frames, radial, basis, g0, g1, source_ptr, source_order, d_nodes, d_frames, d_radial,
    n_atoms, n_edges, L: tl.constexpr, H: tl.constexpr, WIDTH: tl.constexpr, RANK: tl.constexpr,
    ACC: tl.constexpr, BE: tl.constexpr, BC: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    """All gradients of one source's edges; the last TAIL programs clear those of padding."""
    D: tl.constexpr = (L + 1) * (L + 1)
    COLUMNS: tl.constexpr = (L + 1) * H if RANK == 0 else (D + L * L) * RANK
    FRAME: tl.constexpr = 3 * (D - 1)
    BLOCKS: tl.constexpr = (H + BC - 1) // BC
    j = tl.program_id(0).to(tl.int64)
    if j >= n_atoms:
        # Both pointers end at the number of edges that are not padding.
        tail = tl.load(source_ptr + n_atoms).to(tl.int64)
        clear_tail(d_frames, FRAME, tail, n_edges, j - n_atoms, TAIL)
        clear_tail(d_radial, COLUMNS, tail, n_edges, j - n_atoms, TAIL)
        return
    begin, end = tl.load(source_ptr + j).to(tl.int64), tl.load(source_ptr + j + 1).to(tl.int64)
    frame_column = tl.arange(0, triton.next_power_of_2(FRAME))
    kernel_column = tl.arange(0, triton.next_power_of_2(COLUMNS) if RANK > 0 else 1)
    zero = tl.zeros((BE, BC), ACC)
    for block in tl.static_range(BLOCKS):
        h = block * BC + tl.arange(0, BC)
        inside = h < H
        node = nodes + j * (D * H) + h
        sums = ()
        for _ in tl.static_range(D):
            sums = sums + (zero,)
        for start in range(begin, end, BE):
            place = start + tl.arange(0, BE)
            live = place < end
            mask = live[:, None] & inside[None, :]
            e = tl.load(source_order + place, live, 0).to(tl.int64)
            from0, from1 = edge_rows(e, h, n_edges, L, WIDTH)
            frame = frames + e * FRAME
            to_frame = d_frames + e[:, None] * FRAME + frame_column[None, :]
            frame_mask = live[:, None] & (frame_column < FRAME)[None, :]
            to_kernel = d_radial + e[:, None] * COLUMNS + kernel_column[None, :]
            kernel_mask = live[:, None] & (kernel_column < COLUMNS)[None, :]
            d_frame = tl.zeros((BE, frame_column.shape[0]), ACC)
            d_kernel = tl.zeros((BE, kernel_column.shape[0]), ACC)
            if block > 0:
                d_frame = tl.load(to_frame, frame_mask, 0.0)
                if RANK > 0:
                    d_kernel = tl.load(to_kernel, kernel_mask, 0.0)
            zonal, minus, plus = (tl.load(g0 + from0, mask, 0.0),), (), ()
            for l in tl.static_range(1, L + 1):
                zonal = zonal + (tl.load(g0 + from0 + l * WIDTH, mask, 0.0),)
                minus = minus + (tl.load(g1 + from1 + (l - 1) * WIDTH, mask, 0.0),)
                plus = plus + (tl.load(g1 + from1 + (L + l - 1) * WIDTH, mask, 0.0),)
            added = ()
            for l in tl.static_range(L + 1):
                # The source's rows in the frame, of this degree.
                t0, tm, tp = zero, zero, zero
                for m in tl.static_range(2 * l + 1):
                    x = tl.load(node + (l * l + m) * H, inside, 0.0)[None, :]
                    if l == 0:
                        t0 += x
                    else:
                        w = frame + (3 * (l * l - 1) + m)
                        t0 += tl.load(w, live, 0.0)[:, None] * x
                        tm += tl.load(w + (2 * l + 1), live, 0.0)[:, None] * x
                        tp += tl.load(w + 2 * (2 * l + 1), live, 0.0)[:, None] * x
                # Through the modulation: a, b, c are the gradients of t0, tm, tp.
                if RANK == 0:
                    at = e[:, None] * COLUMNS + l * H + h[None, :]
                    scale = tl.load(radial + at, mask, 0.0)
                    slope = zonal[l] * t0
                    a, b, c = scale * zonal[l], zero, zero
                    if l > 0:
                        slope += minus[l - 1] * tm + plus[l - 1] * tp
                        b, c = scale * minus[l - 1], scale * plus[l - 1]
                    tl.store(d_radial + at, slope, mask)
                else:
                    a, b, c = zero, zero, zero
                    for r in tl.static_range(RANK):
                        channel = tl.load(basis + r * H + h, inside, 0.0)[None, :]
                        for o in tl.static_range(L + 1):
                            w = radial + e * COLUMNS + ((l * (L + 1) + o) * RANK + r)
                            outgoing = channel * zonal[o]
                            a += tl.load(w, live, 0.0)[:, None] * outgoing
                            s = tl.sum(outgoing * t0, 1)[:, None]
                            chosen = kernel_column[None, :] == (l * (L + 1) + o) * RANK + r
                            d_kernel += tl.where(chosen, s, 0.0)
                        if l > 0:
                            for o in tl.static_range(L):
                                w = radial + e * COLUMNS + ((D + (l - 1) * L + o) * RANK + r)
                                below, above = channel * minus[o], channel * plus[o]
                                weight = tl.load(w, live, 0.0)[:, None]
                                b += weight * below
                                c += weight * above
                                s = tl.sum(below * tm + above * tp, 1)[:, None]
                                chosen = kernel_column[None, :] == (D + (l - 1) * L + o) * RANK + r
                                d_kernel += tl.where(chosen, s, 0.0)
                # Through the rotation.
                for m in tl.static_range(2 * l + 1):
                    if l == 0:
                        added = added + (sums[0] + a,)
                    else:
                        x = tl.load(node + (l * l + m) * H, inside, 0.0)[None, :]
                        w = frame + (3 * (l * l - 1) + m)
                        total = sums[l * l + m]
                        total += tl.load(w, live, 0.0)[:, None] * a
                        total += tl.load(w + (2 * l + 1), live, 0.0)[:, None] * b
                        total += tl.load(w + 2 * (2 * l + 1), live, 0.0)[:, None] * c
                        added = added + (total,)
                        first = frame_column[None, :] - (3 * (l * l - 1) + m)
                        d_frame += tl.where(first == 0, tl.sum(a * x, 1)[:, None], 0.0)
                        d_frame += tl.where(first == 2 * l + 1, tl.sum(b * x, 1)[:, None], 0.0)
                        d_frame += tl.where(
                            first == 2 * (2 * l + 1), tl.sum(c * x, 1)[:, None], 0.0
                        )
            sums = added
            tl.store(to_frame, d_frame, frame_mask)
            if RANK > 0:
                tl.store(to_kernel, d_kernel, kernel_mask)
        for r in tl.static_range(D):
            tl.store(d_nodes + j * (D * H) + r * H + h, tl.sum(sums[r], 0), inside)
