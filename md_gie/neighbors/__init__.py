"""Neighbor lists: CSR edges with a Verlet skin, rebuilt only when atoms or cell have moved."""

from md_gie.neighbors.cache import NeighborCache, ReferenceState
from md_gie.neighbors.geometry import check_geometry
from md_gie.ops import Edges

__all__ = ["Edges", "NeighborCache", "ReferenceState", "check_geometry"]
