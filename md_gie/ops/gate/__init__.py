"""Gated residual of an SO(2) mixing layer."""

from md_gie.ops.gate.op import gated_residual

__all__ = ["gated_residual"]
