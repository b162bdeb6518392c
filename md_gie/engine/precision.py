"""Precision of matrix products on a GPU, set for one evaluation and put back after it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def matmul_precision(device: torch.device, *, tf32: bool) -> Iterator[None]:
    """Allow or forbid TF32 in float32 products on a CUDA device, whatever the process has set."""
    if device.type != "cuda":
        yield
        return
    matmul = torch.backends.cuda.matmul
    before, matmul.allow_tf32 = matmul.allow_tf32, tf32
    try:
        yield
    finally:
        matmul.allow_tf32 = before
