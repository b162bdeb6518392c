"""A training step as one CUDA graph: thousands of small kernels, launched at once.

Batches are padded to one size with atoms that nobody sees, so that the graph fits all of them.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from md_gie.ops import Edges
from md_gie.training.data import Batch
from md_gie.training.loss import Prediction

# Steps on a side stream before the capture: allocations, autotuning and lazy initialisation.
_WARM_UP = 3
# Å. Components of surplus edges: beyond any cutoff.
_FAR = 1e3


class Capacity(NamedTuple):
    """Sizes that a padded batch has; padding needs at least one atom."""

    n_atoms: int
    n_edges: int


def pad_batch(batch: Batch, capacity: Capacity) -> Batch:
    """Fill a batch with isolated atoms, the last of which holds the surplus edges.

    Those edges are longer than the cutoff, so that every function of them vanishes. The padding
    belongs to one more frame, which losses leave out.

    Parameters
    ----------
    batch : Batch
        At most ``capacity.n_atoms - 1`` atoms and ``capacity.n_edges`` edges.
    capacity : Capacity
    """
    edges, device = batch.edges, batch.types.device
    n_atoms, n_edges = edges.n_atoms, edges.n_edges
    more_atoms, more_edges = capacity.n_atoms - n_atoms, capacity.n_edges - n_edges

    def whole(values: Tensor, value: float, count: int) -> Tensor:
        return torch.cat([values, values.new_full((count, *values.shape[1:]), value)])

    def pointer(values: Tensor) -> Tensor:
        values = whole(values, n_edges, more_atoms)
        values[-1] = capacity.n_edges
        return values

    order = torch.arange(n_edges, capacity.n_edges, device=device, dtype=edges.src.dtype)
    last = capacity.n_atoms - 1
    padded = Edges(
        row_ptr=pointer(edges.row_ptr),
        src=whole(edges.src, last, more_edges),
        dst=whole(edges.dst, last, more_edges),
        vectors=whole(edges.vectors, _FAR, more_edges),
        source_ptr=pointer(edges.source_ptr),
        source_order=torch.cat([edges.source_order, order]),
    )
    return batch._replace(
        types=whole(batch.types, 0, more_atoms),
        edges=padded,
        frame=whole(batch.frame, batch.n_atoms.shape[0], more_atoms),
        forces=whole(batch.forces, 0.0, more_atoms),
    )


class CapturedStep:
    """Replay of one training step on the device.

    Parameters
    ----------
    step : callable
        From a padded batch to a prediction: forward, backward and parameter update, without
        waiting for the device.
    capacity : Capacity
        Size of every batch.
    """

    def __init__(self, step: Callable[[Batch], Prediction], capacity: Capacity) -> None:
        self._step = step
        self._capacity = capacity
        self._graph: torch.cuda.CUDAGraph | None = None
        self._calls = 0
        self._batch: Batch | None = None
        self._prediction: Prediction | None = None

    def __call__(self, batch: Batch) -> Prediction:
        """Train on one batch; the result is overwritten by the next call."""
        padded = pad_batch(batch, self._capacity)
        self._calls += 1
        if self._calls <= _WARM_UP:
            prediction = self._run_beside(padded)
            return prediction._replace(forces=prediction.forces[: batch.edges.n_atoms])
        if self._graph is None or self._batch is None:
            # Capturing does not run: the replay below makes this step's update.
            self._batch = _copy(padded)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._prediction = self._step(self._batch)
        for target, source in zip(_tensors(self._batch), _tensors(padded), strict=True):
            target.copy_(source)
        self._graph.replay()
        assert self._prediction is not None
        forces = self._prediction.forces[: batch.edges.n_atoms]
        return self._prediction._replace(forces=forces)

    def _run_beside(self, padded: Batch) -> Prediction:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            prediction = self._step(padded)
        torch.cuda.current_stream().wait_stream(stream)
        return prediction


def _tensors(batch: Batch) -> list[Tensor]:
    return [*batch.edges, *(part for part in batch if isinstance(part, Tensor))]


def _copy(batch: Batch) -> Batch:
    edges = Edges(*(tensor.clone() for tensor in batch.edges))
    others = {
        name: part.clone() for name, part in batch._asdict().items() if isinstance(part, Tensor)
    }
    return Batch(edges=edges, **others)
