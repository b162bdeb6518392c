"""Edge matmul: one small matrix applied to the features of every edge."""

from md_gie.ops.edge_matmul.op import edge_matmul

__all__ = ["edge_matmul"]
