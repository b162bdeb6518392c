"""Attention weights of edges in plain PyTorch: differentiable twice, sums in row order."""

import torch
from torch import Tensor

from md_gie.ops.csr import gather_rows, gather_sources, sum_rows
from md_gie.ops.edges import Edges

MAX_EXPONENT = 80.0
"""Bound of exponents: exp(80) is finite in float32."""


def attention_weights(
    query: Tensor, key: Tensor, bias: Tensor, envelope: Tensor, offset: Tensor, edges: Edges
) -> Tensor:
    """See :func:`md_gie.ops.attention.attention_weights`."""
    query = gather_rows(query, edges.row_ptr, edges.dst)
    key = gather_sources(key, edges.src, edges.source_ptr, edges.source_order)
    logits = (query * key).sum(-1) + bias  # (E, F, A)
    peak = _row_peak(logits, envelope, offset, edges)
    # Only an edge whose envelope is below 1e-17 can exceed the bound; the product stays finite.
    shifted = torch.exp((logits - peak.index_select(0, edges.dst)).clamp(max=MAX_EXPONENT))
    numerator = envelope.square()[:, None, None] * shifted
    total = offset * torch.exp(-peak) + sum_rows(numerator, edges.row_ptr, edges.dst)
    return numerator / gather_rows(total, edges.row_ptr, edges.dst)


@torch.no_grad()
def _row_peak(logits: Tensor, envelope: Tensor, offset: Tensor, edges: Edges) -> Tensor:
    """Logarithm of the largest term of each denominator: (N, F, A).

    It counts envelopes, so that the largest term of the shifted sum is 1: an edge at the cutoff
    with a large logit cannot drive the others, and the offset, to an underflow.
    """
    peak = offset.log().expand(edges.n_atoms, *offset.shape)
    if edges.n_edges == 0:
        return peak
    terms = logits + 2.0 * envelope.log()[:, None, None]
    index = edges.dst.long()[:, None, None].expand_as(terms)
    return peak.contiguous().scatter_reduce(0, index, terms, "amax", include_self=True)
