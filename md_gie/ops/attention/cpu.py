"""Attention weights on CPU by the fused kernels: first derivatives, none for the offset."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from md_gie.ops.attention import cpu_kernels
from md_gie.ops.edges import Edges
from md_gie.ops.threads import run_kernel, split_rows


def attention_weights(
    query: Tensor, key: Tensor, bias: Tensor, envelope: Tensor, offset: Tensor, edges: Edges
) -> Tensor:
    """See :func:`md_gie.ops.attention.attention_weights`."""
    out: Tensor = _AttentionWeights.apply(  # type: ignore[no-untyped-call]
        query.flatten(1, 2), key.flatten(1, 2), bias.flatten(1), envelope, offset.flatten(), edges
    )
    return out.reshape(bias.shape)


class _AttentionWeights(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, bias: Tensor, envelope: Tensor, offset: Tensor,
        edges: Edges,
    ) -> Tensor:  # fmt: skip
        out = bias.new_empty(bias.shape)
        inputs = (query, key, bias, envelope, offset, edges.row_ptr, edges.src)
        run_kernel(cpu_kernels.forward, split_rows(edges.row_ptr), inputs, [out])
        ctx.save_for_backward(query, key, envelope, out)
        ctx.edges = edges
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, envelope, weights = ctx.saved_tensors
        edges: Edges = ctx.edges
        d_query, d_key = query.new_zeros(query.shape), key.new_zeros(key.shape)
        d_bias = weights.new_empty(weights.shape)
        d_envelope = envelope.new_zeros(envelope.shape)
        run_kernel(
            cpu_kernels.backward_destinations,
            split_rows(edges.row_ptr),
            (grad, weights, query, key, envelope, edges.row_ptr, edges.src),
            [d_query, d_bias, d_envelope],
        )
        run_kernel(
            cpu_kernels.backward_sources,
            split_rows(edges.source_ptr),
            (d_bias, query, edges.source_ptr, edges.source_order, edges.dst),
            [d_key],
        )
        return d_query, d_key, d_bias, d_envelope, None, None
