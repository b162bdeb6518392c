"""CUDA graph step: the whole evaluation replayed at once over buffers of fixed capacity.

A captured graph knows one number of edges. Edges are therefore padded to a capacity, the next of a
geometric row of numbers, and graphs are kept for the capacities seen last: a run whose number of
edges wanders replays the same one or two, and the result depends on the configuration alone, not
on which capacities came before.
"""

from collections import OrderedDict
from typing import NamedTuple

import torch
from torch import Tensor

from md_gie.engine.step import Step, StepResult
from md_gie.ops import Edges

GROWTH = 1.05
"""Ratio of neighbouring capacities: padding costs at most 5 %, on average half of that."""
SMALLEST = 1024
KEPT = 4
"""Graphs kept; they share their memory."""
_WARM_UP = 2


def capacity_of(n_edges: int) -> int:
    """Smallest capacity that holds ``n_edges``: a multiple of 64 in steps of :data:`GROWTH`."""
    capacity = SMALLEST
    while capacity < n_edges:
        capacity = -(-int(capacity * GROWTH) // 64) * 64
    return capacity


class _Captured(NamedTuple):
    graph: torch.cuda.CUDAGraph
    types: Tensor
    edges: Edges
    result: StepResult


class GraphStep:
    """A step captured as CUDA graphs; see :data:`md_gie.engine.step.Step`.

    Parameters
    ----------
    step : Step
        The step to capture; it must be free of host synchronisation.
    device : torch.device
        A CUDA device.
    cutoff : float, Å
        Padding edges are longer.

    Attributes
    ----------
    step : Step
        What is captured.
    n_captures : int
        How often a graph was captured.
    """

    def __init__(self, step: Step, device: torch.device, cutoff: float) -> None:
        self.n_captures = 0
        self.step = step
        self._device = device
        self._cutoff = cutoff
        self._graphs: OrderedDict[tuple[int, int], _Captured] = OrderedDict()
        self._pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None

    def __call__(self, types: Tensor, edges: Edges) -> StepResult:
        """Evaluate; the result is the caller's to keep."""
        with torch.cuda.device(self._device):  # whose streams capture and replay
            return self._replay(types, edges)

    def _replay(self, types: Tensor, edges: Edges) -> StepResult:
        n_edges = edges.n_edges
        key = types.shape[0], capacity_of(n_edges)
        captured = self._graphs.get(key)
        if captured is None:
            captured = self._capture(types, edges, key[1])
            self._graphs[key] = captured
            while len(self._graphs) > KEPT:
                self._graphs.popitem(last=False)
        self._graphs.move_to_end(key)
        captured.types.copy_(types)
        _fill(captured.edges, edges)
        captured.graph.replay()
        energies, gradient, forces, virial = captured.result
        return StepResult(
            energies.clone(), gradient[:n_edges].clone(), forces.clone(), virial.clone()
        )

    def _capture(self, types: Tensor, edges: Edges, capacity: int) -> _Captured:
        self.n_captures += 1
        types = types.clone()
        padded = self._buffers(edges, capacity)
        _fill(padded, edges)
        stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        # Kernels compile, and libraries allocate, before the capture.
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                self.step(types, padded)
        torch.cuda.current_stream(self._device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            result = self.step(types, padded)
        return _Captured(graph, types, padded, result)

    def _buffers(self, edges: Edges, capacity: int) -> Edges:
        """Buffers whose padding has valid indices and lies outside the cutoff."""
        per_edge = {
            name: torch.zeros(capacity, dtype=torch.int32, device=self._device)
            for name in ("src", "dst", "source_order")
        }
        vectors = torch.zeros(capacity, 3, dtype=torch.float64, device=self._device)
        vectors[:, 2] = 2.0 * self._cutoff
        return Edges(
            row_ptr=edges.row_ptr.clone(),
            vectors=vectors,
            source_ptr=edges.source_ptr.clone(),
            **per_edge,
        )


def _fill(buffers: Edges, edges: Edges) -> None:
    # What an earlier, longer list left behind is padding as good as any.
    for buffer, values in zip(buffers, edges, strict=True):
        buffer[: values.shape[0]].copy_(values)
