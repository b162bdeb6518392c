"""Zonal scatter: CSR sums of zonal coupling times radial features into packed node rows."""

from md_gie.ops.zonal_scatter.op import zonal_scatter

__all__ = ["zonal_scatter"]
