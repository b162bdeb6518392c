"""Differentiable tensor operations on CSR edges; pure functions of tensors."""

from md_gie.ops.edges import Edges
from md_gie.ops.zonal_scatter import harmonic_scatter, zonal_scatter

__all__ = ["Edges", "harmonic_scatter", "zonal_scatter"]
