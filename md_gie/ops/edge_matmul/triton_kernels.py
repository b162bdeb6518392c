"""Triton kernel of the edge matmul: float32 accuracy from three half-precision products.

Every factor is scaled by a power of two to below one, by the row of ``x`` and by the whole matrix,
and split into a high and a low half-precision part; low times low is below the rounding of float32.
"""

import triton
import triton.language as tl


@triton.jit
def multiply(
    x, matrix, out, n_edges, x_stream, x_edge, stream, row, column, K: tl.constexpr,
    M: tl.constexpr, PARTS: tl.constexpr, BE: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """``out[f, e] = x[f, e] @ matrix[f]``; strides in elements, rows of ``x`` contiguous."""
    BLOCKS: tl.constexpr = (M + BM - 1) // BM
    f = tl.program_id(1).to(tl.int64)
    e = (tl.program_id(0) // BLOCKS).to(tl.int64) * BE + tl.arange(0, BE)
    c = tl.program_id(0) % BLOCKS * BM + tl.arange(0, BM)
    k = tl.arange(0, BK)
    live = (e < n_edges)[:, None]
    from_x = x + f * x_stream + e[:, None] * x_edge
    from_matrix = matrix + f * stream + c[None, :] * column
    largest, weight = tl.zeros((BE,), tl.float32), 0.0
    for start in range(0, K, BK):
        inside = start + k < K
        left = tl.load(from_x + (start + k)[None, :], live & inside[None, :], 0.0)
        largest = tl.maximum(largest, tl.max(tl.abs(left), 1))
        mask = inside[:, None] & (c < M)[None, :]
        right = tl.load(from_matrix + (start + k)[:, None] * row, mask, 0.0)
        weight = tl.maximum(weight, tl.max(tl.abs(right)))
    shrink, grow = power(largest)
    shrink_weight, grow_weight = power(weight)
    total = tl.zeros((BE, BM), tl.float32)
    for start in range(0, K, BK):
        inside = start + k < K
        left = tl.load(from_x + (start + k)[None, :], live & inside[None, :], 0.0)
        mask = inside[:, None] & (c < M)[None, :]
        right = tl.load(from_matrix + (start + k)[:, None] * row, mask, 0.0)
        left, right = left * shrink[:, None], right * shrink_weight
        a, b = left.to(tl.float16), right.to(tl.float16)
        if PARTS == 3:
            total = tl.dot((left - a.to(tl.float32)).to(tl.float16), b, total)
            total = tl.dot(a, (right - b.to(tl.float32)).to(tl.float16), total)
        total = tl.dot(a, b, total)
    total = total * (grow * grow_weight)[:, None]
    tl.store(out + (f * n_edges + e[:, None]) * M + c[None, :], total, live & (c < M)[None, :])


@triton.jit
def power(largest):
    """Power of two that brings numbers up to ``largest`` below one, and its inverse."""
    bits = largest.to(tl.int32, bitcast=True) & 0x7F800000
    # Zero, tiny, infinite and NaN keep exponents whose inverse exists.
    bits = tl.minimum(tl.maximum(bits, 0x01000000), 0x7D000000)
    grow = (bits + 0x00800000).to(tl.float32, bitcast=True)
    shrink = (0x7F000000 - bits - 0x00800000).to(tl.float32, bitcast=True)
    return shrink, grow
