"""What a run was made with: facts that a continuation must share, and metadata for files."""

import dataclasses
import json
import platform
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from md_gie.md.config import RunConfig
from md_gie.md.setup import RunParts

_IN_TRAJECTORY = (
    "trajectory_every",
    "velocities_every",
    "forces_every",
    "observables_every",
    "position_dtype",
    "force_unit",
    "compression",
)


def shared_facts(config: RunConfig, parts: RunParts) -> dict[str, Any]:
    """Return what must not change between a run and its continuation, as JSON values."""
    structure, settings = parts.structure, dataclasses.asdict(config.md)
    del settings["n_steps"]
    return {
        "model": parts.engine.name,
        "model_hash": parts.model_hash,
        "dtype": str(parts.engine.dtype).removeprefix("torch."),
        "numbers": structure.numbers.tolist(),
        "pbc": structure.pbc.tolist(),
        "frozen": np.flatnonzero(structure.frozen).tolist(),
        **json.loads(json.dumps(settings)),
        "skin_A": config.neighbors.skin_A,
        **{name: getattr(config.output, name) for name in _IN_TRAJECTORY},
    }


def surroundings(parts: RunParts) -> dict[str, Any]:
    """Return what may change, but can change the last bits of results."""
    device = parts.engine.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "device": f"{device.type} ({name})",
        "evaluation": parts.modes,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def trajectory_metadata(config: RunConfig, parts: RunParts, run_id: str) -> dict[str, str]:
    """Return the attributes that a trajectory carries, so that it tells how it was made."""
    versions = {name: version(name) for name in ("md_gie", "torch", "numpy", "h5py")}
    return {
        "run_id": run_id,
        "model": parts.engine.name,
        "model_hash": parts.model_hash,
        "config": config.to_json(),
        "seed": str(config.md.seed),
        "versions": json.dumps(versions | {"python": platform.python_version()}),
        "surroundings": json.dumps(surroundings(parts)),
    }
