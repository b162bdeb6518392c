"""Edges: the connectivity and vectors that the neighbor layer hands to a model each step."""

from typing import NamedTuple

from torch import Tensor


class Edges(NamedTuple):
    """Directed edges within the cutoff, grouped by destination (CSR).

    An edge points from the receiving atom ``dst`` to the sending atom ``src``: its vector is
    ``positions[src] + shift @ cell - positions[dst]``. An atom and several periodic images of
    another (or of itself) are separate edges.

    Attributes
    ----------
    row_ptr : (N+1,) int32
        Edges of destination ``i`` are ``row_ptr[i]:row_ptr[i+1]``.
    src, dst : (E,) int32
        Sending and receiving atom of each edge; ``dst`` ascends.
    vectors : (E, 3) float64, Å
        Edge vectors.
    source_ptr : (N+1,) int32
        Entries of ``source_order`` that belong to source ``j``: ``source_ptr[j]:source_ptr[j+1]``.
    source_order : (E,) int32
        Edge numbers sorted by source, ascending within each source.
    """

    row_ptr: Tensor
    src: Tensor
    dst: Tensor
    vectors: Tensor
    source_ptr: Tensor
    source_order: Tensor

    @property
    def n_atoms(self) -> int:
        """Number of atoms N."""
        return self.row_ptr.shape[0] - 1

    @property
    def n_edges(self) -> int:
        """Number of directed edges E."""
        return self.src.shape[0]
