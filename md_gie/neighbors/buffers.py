"""Memory for the edges of a step, used again once nobody looks at it any more."""

import weakref

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from md_gie.ops import Edges

GROWTH = 1.1  # spare room, so that lists of fluctuating size fit the same arrays
KEPT = 2  # a driver may hold the edges of one step while it makes the next


class EdgeBuffers:
    """Arrays that the edges of one step are written to.

    Attributes
    ----------
    src, dst, order : (capacity,) int32
        See :class:`~md_gie.neighbors.Edges`.
    vectors : (capacity, 3) float64, Å
    numbers : (capacity,) int32
        Scratch: place of each listed edge among those written, or -1.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.src, self.dst, self.order, self.numbers = (
            np.empty(capacity, np.int32) for _ in range(4)
        )
        self.vectors = np.empty((capacity, 3), np.float64)
        self._views: list[weakref.ref[NDArray[np.generic]]] = []

    def edges(self, row_ptr: NDArray[np.int32]) -> Edges:
        """Tensors over the first ``row_ptr[-1]`` entries, without a copy."""
        n_edges = int(row_ptr[-1])
        self._views = []
        src, dst, order = (
            self._lend(array[:n_edges]) for array in (self.src, self.dst, self.order)
        )
        vectors = self._lend(self.vectors[:n_edges])
        # Each edge within the cutoff has its reverse there: a source has as many as a row.
        source_ptr = torch.from_numpy(row_ptr.copy())
        return Edges(torch.from_numpy(row_ptr), src, dst, vectors, source_ptr, order)

    def is_lent(self) -> bool:
        """Whether a tensor of an earlier step, or a view of one, is still alive."""
        return any(view() is not None for view in self._views)

    def _lend(self, view: NDArray[np.generic]) -> Tensor:
        # The tensor's storage holds the view, and with it this array, for as long as it lives.
        self._views.append(weakref.ref(view))
        return torch.from_numpy(view)


class BufferPool:
    """Hands out :class:`EdgeBuffers` that no living tensor refers to.

    Fresh memory for every step would cost more in page faults than the search itself.
    """

    def __init__(self) -> None:
        self._kept: list[EdgeBuffers] = []

    def take(self, capacity: int) -> EdgeBuffers:
        """Buffers with room for ``capacity`` edges, whose old content nobody needs."""
        self._kept = [kept for kept in self._kept if kept.capacity >= capacity]
        for kept in self._kept:
            if not kept.is_lent():
                return kept
        fresh = EdgeBuffers(int(capacity * GROWTH))
        self._kept = [*self._kept, fresh][-KEPT:]
        return fresh
