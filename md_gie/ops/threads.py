"""Running numba kernels beside PyTorch: same number of threads, one caller at a time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Not every threading layer of numba lets two Python threads start parallel kernels at once.
_LOCK = threading.Lock()


@contextmanager
def parallel_region() -> Iterator[None]:
    """Run numba's parallel kernels with PyTorch's number of threads, and restore numba's own."""
    with _LOCK:
        before = numba.get_num_threads()
        numba.set_num_threads(max(1, min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS)))
        try:
            yield
        finally:
            numba.set_num_threads(before)


def as_array(tensor: Tensor) -> NDArray[Any]:
    """View a CPU tensor as a C-contiguous NumPy array, copying only if it is not contiguous."""
    array: NDArray[Any] = tensor.detach().contiguous().numpy()
    return np.ascontiguousarray(array)
