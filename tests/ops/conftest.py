"""Random edges, and memory that is handed out filled with NaN."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from md_gie.ops import Edges


@pytest.fixture(autouse=True)
def poisoned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill what ``empty`` gives with NaN: a kernel that leaves an element unwritten shows."""

    def poison(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def poisoned(*args: Any, **kwargs: Any) -> Tensor:
            out = function(*args, **kwargs)
            return out.fill_(float("nan")) if out.is_floating_point() else out

        return poisoned

    monkeypatch.setattr(torch, "empty", poison(torch.empty))
    monkeypatch.setattr(torch, "empty_like", poison(torch.empty_like))
    monkeypatch.setattr(Tensor, "new_empty", poison(Tensor.new_empty))


def edges_from(counts: Sequence[int], generator: torch.Generator) -> Edges:
    """Random sources for destinations with the given numbers of edges."""
    n_edges, n_atoms = sum(counts), len(counts)
    src = torch.randint(0, max(n_atoms, 1), (n_edges,), generator=generator, dtype=torch.int32)
    dst = torch.arange(n_atoms, dtype=torch.int32).repeat_interleave(torch.tensor(counts).long())
    return Edges(
        row_ptr=torch.tensor([0, *counts]).cumsum(0).int(),
        src=src,
        dst=dst,
        vectors=torch.randn(n_edges, 3, generator=generator, dtype=torch.float64),
        source_ptr=torch.cat(
            [torch.zeros(1), torch.bincount(src.long(), minlength=n_atoms).cumsum(0)]
        ).int(),
        source_order=torch.argsort(src, stable=True).int(),
    )


@pytest.fixture
def make_edges() -> Callable[..., Edges]:
    def make(counts: Sequence[int], seed: int = 0) -> Edges:
        return edges_from(counts, torch.Generator().manual_seed(seed))

    return make
