"""Attention weights of edges in plain PyTorch: differentiable twice, sums in row order."""

import torch
from torch import Tensor

from md_gie.ops.csr import gather_rows, gather_sources, sum_rows
from md_gie.ops.edges import Edges


def attention_weights(
    query: Tensor, key: Tensor, bias: Tensor, envelope: Tensor, offset: Tensor, edges: Edges
) -> Tensor:
    """See :func:`md_gie.ops.attention.attention_weights`."""
    query = gather_rows(query, edges.row_ptr, edges.dst)
    key = gather_sources(key, edges.src, edges.source_ptr, edges.source_order)
    logits = (query * key).sum(-1) + bias  # (E, F, A)
    peak = _row_peak(logits.detach(), offset.detach().log(), edges)
    shifted = torch.exp(logits - peak.index_select(0, edges.dst))
    numerator = envelope.square()[:, None, None] * shifted
    total = offset * torch.exp(-peak) + sum_rows(numerator, edges.row_ptr, edges.dst)
    return numerator / gather_rows(total, edges.row_ptr, edges.dst)


def _row_peak(logits: Tensor, floor: Tensor, edges: Edges) -> Tensor:
    """Largest logit of each destination, or ``floor`` where that is larger: (N, F, A)."""
    peak = floor.expand(edges.n_atoms, *floor.shape)
    if edges.n_edges == 0:
        return peak
    index = edges.dst.long()[:, None, None].expand_as(logits)
    return peak.contiguous().scatter_reduce(0, index, logits, "amax", include_self=True)
