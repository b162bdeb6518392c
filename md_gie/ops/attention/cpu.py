"""Attention weights on CPU by the fused kernels: first derivatives, none for the offset."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from md_gie.ops.attention import cpu_kernels
from md_gie.ops.edges import Edges
from md_gie.ops.threads import as_array, parallel_region


def attention_weights(
    query: Tensor, key: Tensor, bias: Tensor, envelope: Tensor, offset: Tensor, edges: Edges
) -> Tensor:
    """See :func:`md_gie.ops.attention.attention_weights`."""
    out: Tensor = _AttentionWeights.apply(
        query.flatten(1, 2), key.flatten(1, 2), bias.flatten(1), envelope, offset.flatten(), edges
    )
    return out.reshape(bias.shape)


class _AttentionWeights(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, bias: Tensor, envelope: Tensor, offset: Tensor,
        edges: Edges,
    ) -> Tensor:  # fmt: skip
        out = torch.empty(bias.shape, dtype=bias.dtype)
        inputs = (query, key, bias, envelope, offset, edges.row_ptr, edges.src)
        with parallel_region():
            cpu_kernels.forward(*(as_array(t) for t in inputs), out.numpy())
        ctx.save_for_backward(query, key, envelope, out)
        ctx.edges = edges
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, envelope, weights = ctx.saved_tensors
        edges: Edges = ctx.edges
        d_query, d_key = (
            torch.zeros(query.shape, dtype=query.dtype),
            torch.zeros(key.shape, dtype=key.dtype),
        )
        d_bias = torch.empty(weights.shape, dtype=weights.dtype)
        d_envelope = torch.zeros(envelope.shape, dtype=envelope.dtype)
        inputs = (grad, weights, query, key, envelope, edges.row_ptr, edges.src)
        with parallel_region():
            cpu_kernels.backward_destinations(
                *(as_array(t) for t in inputs), d_query.numpy(), d_bias.numpy(), d_envelope.numpy()
            )
            inputs = (d_bias, query, edges.source_ptr, edges.source_order, edges.dst)
            cpu_kernels.backward_sources(*(as_array(t) for t in inputs), d_key.numpy())
        return d_query, d_key, d_bias, d_envelope, None, None
