"""Triton kernel of the edge matmul: one program for a tile of edges and columns."""

import triton
import triton.language as tl


@triton.jit
def multiply(
    x, matrix, out, n_edges, x_stream, x_edge, stream, row, column, K: tl.constexpr,
    M: tl.constexpr, PRECISION: tl.constexpr, BE: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """``out[f, e] = x[f, e] @ matrix[f]``; strides in elements, rows of ``x`` contiguous."""
    f = tl.program_id(2).to(tl.int64)
    e = tl.program_id(1).to(tl.int64) * BE + tl.arange(0, BE)
    c = tl.program_id(0) * BM + tl.arange(0, BM)
    k = tl.arange(0, BK)
    live = (e < n_edges)[:, None]
    total = tl.zeros((BE, BM), tl.float32)
    from_x = x + f * x_stream + e[:, None] * x_edge
    from_matrix = matrix + f * stream + c[None, :] * column
    for start in range(0, K, BK):
        inside = start + k < K
        left = tl.load(from_x + (start + k)[None, :], live & inside[None, :], 0.0)
        mask = inside[:, None] & (c < M)[None, :]
        right = tl.load(from_matrix + (start + k)[:, None] * row, mask, 0.0)
        total = tl.dot(left, right, total, input_precision=PRECISION)
    tl.store(out + (f * n_edges + e[:, None]) * M + c[None, :], total, live & (c < M)[None, :])
