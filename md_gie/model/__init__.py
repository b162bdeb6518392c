"""The DPA4 model: configuration, boxes, and checkpoints."""

from md_gie.model.checkpoint import load_model, read_checkpoint, write_checkpoint
from md_gie.model.config import DPA4Config
from md_gie.model.dpa4 import DPA4

__all__ = ["DPA4", "DPA4Config", "load_model", "read_checkpoint", "write_checkpoint"]
