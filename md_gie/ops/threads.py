"""Launching compiled kernels: blocks of rows on PyTorch's number of threads, tensors as arrays.

A kernel comes as a pair: serial over a range of rows, and parallel over blocks of them. The
parallel one runs on numba's threads, which where both use OpenMP are PyTorch's own, so that the two
do not compete for cores. It is left out where numba would abort the process: while another Python
thread is in a parallel kernel, and in the child of a fork.
"""

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Block = tuple[int, int]

EDGES_PER_BLOCK = 300
"""Edges below which a thread costs more than it saves."""

KERNEL_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
"""Options of every compiled kernel."""

_LOCK = threading.Lock()
_first_process: int | None = None


class Kernel(NamedTuple):
    """Two forms of one kernel.

    Attributes
    ----------
    serial : callable
        Takes ``first, last`` and the arrays.
    parallel : callable
        Takes the borders of all blocks, int64, and the arrays.
    """

    serial: Callable[..., None]
    parallel: Callable[..., None]


def split_rows(row_ptr: Tensor) -> list[Block]:
    """Row ranges with about equal numbers of edges, at most one for each of torch's threads."""
    ends = as_array(row_ptr)
    n_rows, n_edges = len(ends) - 1, int(ends[-1])
    n_blocks = _n_blocks(n_edges)
    if n_blocks == 1:
        return [(0, n_rows)]
    shares = np.arange(1, n_blocks) * (n_edges / n_blocks)
    bounds = [0, *np.searchsorted(ends, shares).tolist(), n_rows]
    return [(a, b) for a, b in itertools.pairwise(bounds) if a < b]


def split_edges(n_edges: int) -> list[Block]:
    """Edge ranges of about equal length, at most one for each of torch's threads."""
    n_blocks = _n_blocks(n_edges)
    bounds = [n_edges * block // n_blocks for block in range(n_blocks + 1)]
    return list(itertools.pairwise(bounds))


def run_kernel(
    kernel: Kernel, blocks: Sequence[Block], inputs: Sequence[Any], outputs: Sequence[Tensor]
) -> None:
    """Run a kernel over contiguous blocks; tensors become arrays, ``outputs`` without a copy.

    The number of threads that PyTorch and numba use is the same before and after.
    """
    arrays = [as_array(item) if isinstance(item, Tensor) else item for item in inputs]
    arrays += [item.detach().numpy() for item in outputs]
    if len(blocks) > 1 and not _is_forked() and _LOCK.acquire(blocking=False):
        try:
            _run_parallel(kernel, blocks, arrays)
        finally:
            _LOCK.release()
    else:
        kernel.serial(blocks[0][0], blocks[-1][1], *arrays)


def _run_parallel(kernel: Kernel, blocks: Sequence[Block], arrays: Sequence[Any]) -> None:
    bounds = np.array([first for first, _ in blocks] + [blocks[-1][1]], dtype=np.int64)
    torch_threads, numba_threads = torch.get_num_threads(), numba.get_num_threads()
    numba.set_num_threads(min(len(blocks), numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
    try:
        kernel.parallel(bounds, *arrays)
    finally:
        numba.set_num_threads(numba_threads)
        # The first start of numba's threads sets OpenMP's number, which is PyTorch's too.
        if torch.get_num_threads() != torch_threads:
            torch.set_num_threads(torch_threads)


def _is_forked() -> bool:
    """Whether this process was forked from one that launched kernels before."""
    global _first_process
    if _first_process is None:
        _first_process = os.getpid()
    return _first_process != os.getpid()


def as_array(tensor: Tensor) -> NDArray[Any]:
    """View a CPU tensor as a C-contiguous NumPy array, copying only if it is not contiguous."""
    array: NDArray[Any] = tensor.detach().contiguous().numpy()
    return np.ascontiguousarray(array)


def _n_blocks(n_edges: int) -> int:
    return max(1, min(torch.get_num_threads(), n_edges // EDGES_PER_BLOCK))
