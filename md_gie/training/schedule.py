"""Learning-rate schedule in terms of progress, and the running average of parameters."""

import copy
import math

import torch
from torch import Tensor, nn

from md_gie.training.config import OptimizerConfig


def learning_rate(config: OptimizerConfig, step: int, progress: float) -> float:
    """Learning rate of one step.

    A linear warm-up over ``warmup_steps`` steps times an annealing factor that falls from 1 to
    ``final_learning_rate / learning_rate`` as ``progress`` goes from 0 to 1: along half a cosine
    (Loshchilov and Hutter, arXiv:1608.03983) or exponentially.
    """
    progress = min(max(progress, 0.0), 1.0)
    floor = config.final_learning_rate / config.learning_rate
    if config.schedule == "cosine":
        factor = floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * progress))
    else:
        factor = floor**progress
    warmup = min(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else 1.0
    return config.learning_rate * factor * warmup


class ParameterAverage:
    """Exponential moving average of the trainable parameters of a model.

    Parameters
    ----------
    model : nn.Module
        Its present parameters are the first average.
    decay : float
        Share of the old average kept in an update. Early updates keep less, ``(1+n)/(10+n)`` at
        update n, so that the start is forgotten soon.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        trainable = [(n, p.detach()) for n, p in model.named_parameters() if p.requires_grad]
        self.values = {name: parameter.clone() for name, parameter in trainable}
        self._parameters = [parameter for _, parameter in trainable]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Move the average towards the parameters after update number ``step`` (from 0)."""
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.values.values()), self._parameters, 1.0 - decay)

    def averaged(self, model: nn.Module) -> nn.Module:
        """Copy of ``model`` that carries the averaged parameters; none of them is trainable."""
        shadow = copy.deepcopy(model).requires_grad_(False)
        with torch.no_grad():
            for name, parameter in shadow.named_parameters():
                if name in self.values:
                    parameter.copy_(self.values[name])
        return shadow

    def load(self, values: dict[str, Tensor]) -> None:
        """Take the average from a stored state."""
        for name, value in self.values.items():
            value.copy_(values[name])
