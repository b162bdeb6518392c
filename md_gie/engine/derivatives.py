"""From the gradient on edge vectors to forces and virials: sums over CSR and its transpose."""

from torch import Tensor

from md_gie.ops.csr import segment_sum
from md_gie.ops.edges import Edges


def forces_from_edges(gradient: Tensor, edges: Edges) -> Tensor:
    """Sum ``dE/d vector`` (E, 3) to forces (N, 3): over destinations, minus over sources."""
    received: Tensor = segment_sum(gradient, edges.row_ptr)
    sent: Tensor = segment_sum(gradient, edges.source_ptr, edges.source_order)
    return received - sent


def virial_from_edges(gradient: Tensor, vectors: Tensor) -> Tensor:
    """Sum the virial (3, 3) ``-sum_e g_e ⊗ v_e``; symmetric up to rounding, returned symmetric."""
    virial = -(gradient.T @ vectors)
    return 0.5 * (virial + virial.T)


def atomic_virials_from_edges(gradient: Tensor, edges: Edges) -> Tensor:
    """Sum per-atom virials (N, 3, 3): half of each edge's share for either of its atoms."""
    share = -0.5 * gradient.unsqueeze(2) * edges.vectors.unsqueeze(1)
    received: Tensor = segment_sum(share, edges.row_ptr)
    sent: Tensor = segment_sum(share, edges.source_ptr, edges.source_order)
    return received + sent
