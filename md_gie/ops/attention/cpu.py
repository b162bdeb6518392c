"""Attention weights on CPU: launches of the numba kernels."""

from torch import Tensor

from md_gie.ops.attention import cpu_kernels
from md_gie.ops.threads import run_kernel, split_rows


def attention_weights(
    query: Tensor, key: Tensor, bias: Tensor, envelope: Tensor, offset: Tensor, row_ptr: Tensor,
    src: Tensor,
) -> Tensor:  # fmt: skip
    """See :func:`md_gie.ops.attention.grouped.attention_weights`."""
    out = bias.new_zeros(bias.shape)
    inputs = (query, key, bias, envelope, offset, row_ptr, src)
    run_kernel(cpu_kernels.forward, split_rows(row_ptr), inputs, [out])
    return out


def attention_weights_backward(
    grad: Tensor, weights: Tensor, query: Tensor, key: Tensor, envelope: Tensor, row_ptr: Tensor,
    src: Tensor, dst: Tensor, source_ptr: Tensor, source_order: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients for the first four arguments of :func:`attention_weights`."""
    d_query, d_key = query.new_zeros(query.shape), key.new_zeros(key.shape)
    d_bias, d_envelope = weights.new_zeros(weights.shape), envelope.new_zeros(envelope.shape)
    run_kernel(
        cpu_kernels.backward_destinations,
        split_rows(row_ptr),
        (grad, weights, query, key, envelope, row_ptr, src),
        [d_query, d_bias, d_envelope],
    )
    run_kernel(
        cpu_kernels.backward_sources,
        split_rows(source_ptr),
        (d_bias, query, source_ptr, source_order, dst),
        [d_key],
    )
    return d_query, d_key, d_bias, d_envelope
