"""Training state on disk: everything that an exact resume needs, written atomically."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from md_gie.errors import CheckpointError

_FORMAT = "md_gie training state 1"


class TrainingState(NamedTuple):
    """What a training run is at the start of update ``step``.

    Attributes
    ----------
    step : int
        Updates done.
    elapsed_seconds : float
        Wall time spent in updates and validation, all sessions together.
    model, average : dict of tensors
        Parameters and their running average.
    optimizer : dict
        State of the optimizer.
    settings : dict
        Configuration that the run was started with.
    """

    step: int
    elapsed_seconds: float
    model: dict[str, Tensor]
    average: dict[str, Tensor]
    optimizer: dict[str, Any]
    settings: dict[str, Any]


def state_path(output_dir: Path, name: str) -> Path:
    """File that holds the state of the run called ``name``."""
    return output_dir / f"{name}.state.pt"


def write_state(path: Path, state: TrainingState) -> None:
    """Write the state; the file is replaced only when the new one is complete."""
    part = path.with_suffix(path.suffix + ".part")
    with part.open("wb") as stream:
        torch.save({"format": _FORMAT, **state._asdict()}, stream)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(path)


def read_state(path: Path) -> TrainingState:
    """Read a state written by :func:`write_state`, onto the host.

    Raises
    ------
    CheckpointError
        If the file is missing, damaged, or something else.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{path}: no training state to resume from; start without resuming"
        ) from error
    except Exception as error:
        raise CheckpointError(f"{path}: not a readable training state ({error})") from error
    if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
        raise CheckpointError(f"{path}: not a training state of md_gie; name another file")
    return TrainingState(**content)
