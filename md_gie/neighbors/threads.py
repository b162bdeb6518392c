"""Blocks of rows on Python threads, for compiled loops that release the GIL."""

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

T = TypeVar("T")

EDGES_PER_BLOCK = 20_000  # below this a thread costs more than it saves
_pools: dict[int, ThreadPoolExecutor] = {}


def split_rows(row_ptr: NDArray[np.int32 | np.int64]) -> list[tuple[int, int]]:
    """Row ranges with about equal numbers of edges, at most one for each of torch's threads."""
    n_rows, n_edges = len(row_ptr) - 1, int(row_ptr[-1])
    n_blocks = max(1, min(torch.get_num_threads(), n_edges // EDGES_PER_BLOCK))
    if n_blocks == 1:
        return [(0, n_rows)]
    shares = np.arange(1, n_blocks) * (n_edges / n_blocks)
    bounds = [0, *np.searchsorted(row_ptr, shares).tolist(), n_rows]
    return [(a, b) for a, b in itertools.pairwise(bounds) if a < b]


def run_blocks(work: Callable[..., T], *blocks: tuple[int, ...]) -> list[T]:
    """Call ``work(*block)`` for each block at once; results in the order of the blocks."""
    # The pool is used from any number of threads: its tasks never wait for one another.
    pending = [_pool().submit(work, *block) for block in blocks[1:]]
    results = [work(*block) for block in blocks[:1]]
    return results + [future.result() for future in pending]


def _pool() -> ThreadPoolExecutor:
    # A forked child inherits the dictionary but not the threads, hence a pool for each process.
    pid = os.getpid()
    if pid not in _pools:
        workers = os.cpu_count() or 1
        _pools.setdefault(pid, ThreadPoolExecutor(workers, thread_name_prefix="md_gie-neighbors"))
    return _pools[pid]
