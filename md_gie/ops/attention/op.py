"""Attention weights of edges: the only importable face."""

import torch
from torch import Tensor

from md_gie.ops.attention import cpu, reference
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
    served = query.device.type == "cpu" and query.dtype in (torch.float32, torch.float64)
    if fused and served:
        return cpu.attention_weights(query, key, bias, envelope, offset, edges)
    return reference.attention_weights(query, key, bias, envelope, offset, edges)
