"""Attention weights of edges: a softmax over each destination's edges with an offset."""

from md_gie.ops.attention.op import attention_weights

__all__ = ["attention_weights"]
