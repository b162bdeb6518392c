"""Pieces of Triton kernels that several operators use."""

import torch
import triton
import triton.language as tl

ACCUMULATOR = {torch.float64: tl.float64, torch.float32: tl.float32, torch.bfloat16: tl.float32}
"""Dtype of sums for each dtype of data."""


@triton.jit
def clear_tail(array, WIDTH: tl.constexpr, begin, end, part, PARTS: tl.constexpr):
    """Write zeros to the rows ``begin:end`` of an (E, WIDTH) array; ``part`` of PARTS programs."""
    BLOCK: tl.constexpr = 1024
    first = begin * WIDTH + part * BLOCK
    zero = tl.zeros((BLOCK,), array.dtype.element_ty)
    for start in range(first, end * WIDTH, BLOCK * PARTS):
        i = start + tl.arange(0, BLOCK)
        tl.store(array + i, zero, i < end * WIDTH)
