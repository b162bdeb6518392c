"""Sums and gathers on CSR rows: values, derivatives to second order, degenerate sizes."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from md_gie.ops import Edges
from md_gie.ops.csr import gather_rows, gather_sources, segment_sum, sum_rows, sum_sources

COUNTS = {"uneven": [3, 0, 5, 1], "no-edges": [0, 0, 0], "one-row": [7]}
FUNCTIONS: dict[str, tuple[bool, Callable[[Tensor, Edges], Tensor]]] = {
    "sum_rows": (True, lambda x, e: sum_rows(x, e.row_ptr, e.dst)),
    "gather_rows": (False, lambda x, e: gather_rows(x, e.row_ptr, e.dst)),
    "gather_sources": (False, lambda x, e: gather_sources(x, e.src, e.source_ptr, e.source_order)),
    "sum_sources": (True, lambda x, e: sum_sources(x, e.src, e.source_ptr, e.source_order)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_values_and_derivatives(
    name: str, counts: list[int], make_edges: Callable[..., Edges]
) -> None:
    edges = make_edges(counts)
    on_edges, function = FUNCTIONS[name]
    size = edges.n_edges if on_edges else edges.n_atoms
    x = torch.randn(size, 2, 3, dtype=torch.float64, requires_grad=True)
    index = (edges.dst if name.endswith("rows") else edges.src).long()
    if on_edges:
        expected = torch.zeros(edges.n_atoms, 2, 3, dtype=torch.float64)
        for edge, row in enumerate(index.tolist()):
            expected[row] += x[edge].detach()
    else:
        expected = x.detach()[index]
    torch.testing.assert_close(function(x, edges).detach(), expected, rtol=0, atol=1e-14)
    assert torch.autograd.gradcheck(lambda x: function(x, edges), (x,))
    # Squared, so that the second derivative is not zero.
    assert torch.autograd.gradgradcheck(lambda x: function(x, edges).square(), (x,))


def test_entries_past_the_last_row_are_not_summed() -> None:
    row_ptr = torch.tensor([0, 2, 3])
    values = torch.tensor([1.0, 2.0, 4.0, 100.0])
    torch.testing.assert_close(segment_sum(values, row_ptr), torch.tensor([3.0, 4.0]))


def test_no_rows() -> None:
    assert segment_sum(torch.zeros(0, 4), torch.zeros(1, dtype=torch.int32)).shape == (0, 4)
