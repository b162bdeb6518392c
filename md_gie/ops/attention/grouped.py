"""Fused attention weights as a torch operator: first derivatives only, none for the offset.

Groups G are streams times heads: ``query`` and ``key`` (N, G, h), ``bias`` (E, G). Edges from
``row_ptr[N]`` on are padding: they have weight zero and zero gradients.
"""

from typing import Any

import torch
from torch import Tensor

from md_gie.ops import launch

_PACKAGE = "md_gie.ops.attention"


@torch.library.custom_op("md_gie::attention_weights", mutates_args=())
def attention_weights(
    query: Tensor,
    key: Tensor,
    bias: Tensor,
    envelope: Tensor,
    offset: Tensor,
    row_ptr: Tensor,
    src: Tensor,
    dst: Tensor,
    source_ptr: Tensor,
    source_order: Tensor,
) -> Tensor:
    """Softmax over each destination's edges: (E, G)."""
    out: Tensor = launch.implementation(_PACKAGE, query).attention_weights(
        query, key, bias, envelope, offset, row_ptr, src
    )
    return out


@torch.library.custom_op("md_gie::attention_weights_backward", mutates_args=())
def _backward(
    grad: Tensor,
    weights: Tensor,
    query: Tensor,
    key: Tensor,
    envelope: Tensor,
    row_ptr: Tensor,
    src: Tensor,
    dst: Tensor,
    source_ptr: Tensor,
    source_order: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    out: tuple[Tensor, Tensor, Tensor, Tensor] = launch.implementation(
        _PACKAGE, query
    ).attention_weights_backward(
        grad, weights, query, key, envelope, row_ptr, src, dst, source_ptr, source_order
    )
    return out


@attention_weights.register_fake
def _(query: Tensor, key: Tensor, bias: Tensor, *rest: Tensor) -> Tensor:
    return bias.new_empty(bias.shape)


@_backward.register_fake
def _(
    grad: Tensor, weights: Tensor, query: Tensor, key: Tensor, envelope: Tensor, *rest: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    d_query, d_key = query.new_empty(query.shape), key.new_empty(key.shape)
    return d_query, d_key, weights.new_empty(weights.shape), envelope.new_empty(envelope.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    query, key, _, envelope, _, *edges = inputs
    ctx.save_for_backward(output, query, key, envelope, *edges)


def _first_order(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return *_backward(grad, *ctx.saved_tensors), None, None, None, None, None, None


attention_weights.register_autograd(_first_order, setup_context=_save)
