"""Edge matmul by Triton: tile shapes and launches."""

import triton
from torch import Tensor

from md_gie.ops.edge_matmul import triton_kernels
from md_gie.ops.launch import device_of


def edge_matmul(x: Tensor, matrix: Tensor, half: bool) -> Tensor:
    """See :func:`md_gie.ops.edge_matmul.edge_matmul`."""
    streams, n_edges, _ = x.shape
    if x.stride(2) != 1:
        x = x.contiguous()
    columns = matrix.shape[2]
    out = x.new_empty(streams, n_edges, columns)
    if out.numel():
        block = 64 if columns > 32 else 32
        # Only the first dimension of a grid may be longer than 65535.
        grid = (triton.cdiv(columns, block) * triton.cdiv(n_edges, 128), streams)
        with device_of(x):
            triton_kernels.multiply[grid](
                x, matrix, out, n_edges, *x.stride()[:2], *matrix.stride(),
                K=x.shape[2], M=columns, PARTS=1 if half else 3, BE=128, BM=block, BK=32,
                num_warps=8, num_stages=3,
            )  # fmt: skip
    return out
