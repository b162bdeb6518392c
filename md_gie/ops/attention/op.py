"""Attention weights of edges: the only importable face."""

import torch
from torch import Tensor

from md_gie.ops import launch
from md_gie.ops.attention import grouped, reference
from md_gie.ops.edges import Edges


def attention_weights(
    query: Tensor,
    key: Tensor,
    bias: Tensor,
    envelope: Tensor,
    offset: Tensor,
    edges: Edges,
    *,
    fused: bool,
) -> Tensor:
    r"""Softmax of query-key products over the edges of each destination.

    .. math:: \alpha_e =
        \frac{w_e^2 e^{\lambda_e}}{\zeta + \sum_{e' \to i} w_{e'}^2 e^{\lambda_{e'}}},
        \qquad \lambda_e = q_i \cdot k_j + b_e

    Parameters
    ----------
    query, key : (N, F, A, h) floating
        Queries of destinations and keys of sources, for F streams and A heads of width h.
    bias : (E, F, A)
        Added to the products.
    envelope : (E,)
        Edge envelope w; an edge at the cutoff has weight 0.
    offset : (F, A)
        Positive constant ζ of the denominator.
    edges : Edges
        Connectivity.
    fused : bool
        Allow the fused kernels, which have a first derivative only and none for ``offset``.

    Returns
    -------
    (E, F, A) floating
    """
    compiled = query.device.type == "cpu" and query.dtype in (torch.float32, torch.float64)
    if fused and (compiled or launch.is_served(query)):
        weights: Tensor = grouped.attention_weights(
            query.flatten(1, 2), key.flatten(1, 2), bias.flatten(1), envelope, offset.flatten(),
            edges.row_ptr, edges.src, edges.dst, edges.source_ptr, edges.source_order,
        )  # fmt: skip
        return weights.reshape(bias.shape)
    return reference.attention_weights(query, key, bias, envelope, offset, edges)
