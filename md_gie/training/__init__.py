"""Training of DPA4 models on labelled frames."""

from md_gie.training.config import TrainingConfig, read_config
from md_gie.training.run import TrainingResult, train_from_config

__all__ = ["TrainingConfig", "TrainingResult", "read_config", "train_from_config"]
