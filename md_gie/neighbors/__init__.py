"""Neighbor lists: CSR edges with a Verlet skin, rebuilt only when atoms or cell have moved."""

from md_gie.neighbors.cache import NeighborCache, ReferenceState
from md_gie.neighbors.edges import Edges
from md_gie.neighbors.geometry import check_geometry

__all__ = ["Edges", "NeighborCache", "ReferenceState", "check_geometry"]
