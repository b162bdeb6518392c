"""Rotation of features into and out of edge frames, fused with gather, modulation and sum."""

from md_gie.ops.rotation.op import pack_frames, rotate_in, rotate_out

__all__ = ["pack_frames", "rotate_in", "rotate_out"]
