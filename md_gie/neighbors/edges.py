"""Edges, re-exported from the operators' layer."""

from md_gie.ops.edges import Edges

__all__ = ["Edges"]
