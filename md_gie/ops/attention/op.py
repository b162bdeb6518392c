"""Attention weights of edges: the only importable face."""

from torch import Tensor

from md_gie.ops.attention import reference
from md_gie.ops.edges import Edges


def attention_weights(
    query: Tensor, key: Tensor, bias: Tensor, envelope: Tensor, offset: Tensor, edges: Edges
) -> Tensor:
    r"""Softmax of query-key products over the edges of each destination.

    .. math:: \alpha_e = \frac{w_e^2 e^{\lambda_e}}{\zeta + \sum_{e' \to i} w_{e'}^2 e^{\lambda_{e'}}},
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

    Returns
    -------
    (E, F, A) floating
    """
    return reference.attention_weights(query, key, bias, envelope, offset, edges)
