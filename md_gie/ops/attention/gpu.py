"""Attention weights by Triton: tile shapes and launches."""

import torch
from torch import Tensor

from md_gie.ops.attention import triton_kernels
from md_gie.ops.attention.reference import MAX_EXPONENT
from md_gie.ops.launch import TAIL_PROGRAMS, device_of, power_of_2
from md_gie.ops.triton_common import ACCUMULATOR


def attention_weights(
    query: Tensor, key: Tensor, bias: Tensor, envelope: Tensor, offset: Tensor, row_ptr: Tensor,
    src: Tensor,
) -> Tensor:  # fmt: skip
    """See :func:`md_gie.ops.attention.grouped.attention_weights`."""
    out = torch.empty_like(bias, memory_format=torch.contiguous_format)
    n_rows, n_edges = row_ptr.shape[0] - 1, bias.shape[0]
    if n_edges:
        with device_of(query):
            triton_kernels.forward[(n_rows + TAIL_PROGRAMS,)](
                query.contiguous(), key.contiguous(), bias.contiguous(), envelope.contiguous(),
                offset.contiguous(), row_ptr, src, out, n_rows, n_edges,
                MAX_EXPONENT=MAX_EXPONENT, TAIL=TAIL_PROGRAMS, **_options(query),
            )  # fmt: skip
    return out


def attention_weights_backward(
    grad: Tensor, weights: Tensor, query: Tensor, key: Tensor, envelope: Tensor, row_ptr: Tensor,
    src: Tensor, dst: Tensor, source_ptr: Tensor, source_order: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients for the first four arguments of :func:`attention_weights`."""
    d_query, d_key, d_bias, d_envelope = [
        torch.empty_like(t, memory_format=torch.contiguous_format)
        for t in (query, key, weights, envelope)
    ]
    n_rows, n_edges = row_ptr.shape[0] - 1, weights.shape[0]
    if n_rows:
        options = _options(query)
        with device_of(query):
            triton_kernels.backward_destinations[(n_rows + TAIL_PROGRAMS,)](
                grad.contiguous(), weights.contiguous(), key.contiguous(), envelope.contiguous(),
                row_ptr, src, d_query, d_bias, d_envelope, n_rows, n_edges,
                TAIL=TAIL_PROGRAMS, **options,
            )  # fmt: skip
            triton_kernels.backward_sources[(n_rows,)](
                d_bias, query.contiguous(), source_ptr, source_order, dst, d_key, **options
            )
    return d_query, d_key, d_bias, d_envelope


def _options(query: Tensor) -> dict[str, object]:
    groups, width = query.shape[1], query.shape[2]
    return {
        "G": groups, "WIDTH": width, "ACC": ACCUMULATOR[query.dtype], "BE": 8,
        "BG": power_of_2(groups), "BW": power_of_2(width), "num_warps": 2,
    }  # fmt: skip
