"""Compiled step: the evaluation with its derivative as one graph, for any number of edges.

The graph is traced once, on symbolic sizes, with the backward pass unrolled into it; the compiler
then sees forward and backward together, and nothing of autograd is left at run time.
"""

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

from md_gie.engine.step import Step, StepResult
from md_gie.ops import Edges

# Sizes of the traced example: no two alike, or the tracer would take them for one size.
_N_ATOMS, _N_EDGES = 7, 23
# torch.compile takes sizes 0 and 1 for constants.
MIN_SIZE = 2


def example(device: torch.device) -> tuple[Tensor, Edges]:
    """Types and edges to trace with; only their shapes matter."""

    def zeros(*shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    return zeros(_N_ATOMS, dtype=torch.int64), Edges(
        row_ptr=zeros(_N_ATOMS + 1),
        src=zeros(_N_EDGES),
        dst=zeros(_N_EDGES),
        vectors=zeros(_N_EDGES, 3, dtype=torch.float64),
        source_ptr=zeros(_N_ATOMS + 1),
        source_order=zeros(_N_EDGES),
    )


def trace(step: Step, device: torch.device) -> fx.GraphModule:
    """Trace a step into one graph of ``types, row_ptr, src, dst, …`` with symbolic sizes."""

    def flat(types: Tensor, *edges: Tensor) -> tuple[Tensor, ...]:
        return tuple(step(types, Edges(*edges)))

    types, edges = example(device)
    # The model's constants are real tensors; they become attributes of the graph.
    tracer = make_fx(flat, tracing_mode="symbolic", _allow_non_fake_inputs=True)
    graph = tracer(types, *edges)
    _drop_detach(graph)
    return graph


def _drop_detach(graph: fx.GraphModule) -> None:
    """Remove detach nodes, which separate nothing once the backward pass is part of the graph."""
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.detach.default:
            node.replace_all_uses_with(node.args[0])
    graph.graph.eliminate_dead_code()
    graph.recompile()


class CompiledStep:
    """A step through torch.compile, compiled at its first call and good for all sizes.

    Parameters
    ----------
    step : Step
        Also used as it is where there are too few atoms or edges to compile for.
    device : torch.device

    Attributes
    ----------
    step : Step
        What was traced.
    n_compilations : int
        How often the compiler has run.
    """

    def __init__(self, step: Step, device: torch.device) -> None:
        self.n_compilations = 0
        self.step = step
        self._graph = trace(step, device)
        self._compiled = torch.compile(
            self._graph, dynamic=True, fullgraph=True, backend=self._backend
        )

    def __call__(self, types: Tensor, edges: Edges) -> StepResult:
        """Evaluate; see :data:`md_gie.engine.step.Step`."""
        if min(types.shape[0], edges.n_edges) < MIN_SIZE:
            return self.step(types, edges)
        with torch.no_grad():
            return StepResult(*self._compiled(types, *edges))

    def _backend(self, graph: fx.GraphModule, inputs: list[Tensor]) -> object:
        from torch._inductor.compile_fx import compile_fx

        self.n_compilations += 1
        return compile_fx(graph, inputs)
