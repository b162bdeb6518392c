"""Zonal scatter: CSR sums of zonal coupling times radial features into packed node rows."""

from md_gie.ops.zonal_scatter.harmonic import harmonic_scatter
from md_gie.ops.zonal_scatter.op import zonal_scatter

__all__ = ["harmonic_scatter", "zonal_scatter"]
