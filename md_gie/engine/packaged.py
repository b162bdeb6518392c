"""Reading compiled packages: what they say of themselves, their checkpoint and their step.

A package is a ZIP file of ``about.json``, ``model.pt`` (the checkpoint) and ``step.pt2`` (an
AOTInductor package). Where it was made for another device or PyTorch, the checkpoint still runs.
"""

import json
import platform
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from md_gie.engine.compiled import MIN_SIZE
from md_gie.engine.step import Step, StepResult
from md_gie.errors import CheckpointError
from md_gie.ops import Edges

FORMAT = 1
ABOUT, MODEL, STEP = "about.json", "model.pt", "step.pt2"


def describe_device(device: torch.device) -> dict[str, str]:
    """Name what a compiled step depends on: device, PyTorch, and the instruction set."""
    about = {"device": device.type, "torch": str(torch.__version__)}
    if device.type == "cuda":
        about["gpu"] = torch.cuda.get_device_name(device)
        about["capability"] = "{}.{}".format(*torch.cuda.get_device_capability(device))
    else:
        about["machine"] = platform.machine()
        about["vector_instructions"] = torch.backends.cpu.get_cpu_capability()
    return about


def is_package(path: Path) -> bool:
    """Whether a file is a compiled package (checkpoints are ZIP files, too)."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as package:
        return {ABOUT, MODEL, STEP} <= set(package.namelist())


def read_about(path: Path) -> dict[str, Any]:
    """Read what a package says of itself.

    Raises
    ------
    CheckpointError
        If it is damaged or of a later format.
    """
    try:
        with zipfile.ZipFile(path) as package:
            about = json.loads(package.read(ABOUT))
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        raise CheckpointError(
            f"{path} is a damaged package ({error}); make it again with `md-gie compile`"
        ) from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        version = about.get("format") if isinstance(about, dict) else None
        raise CheckpointError(
            f"{path} is a package of format {version!r}, this md_gie reads {FORMAT}; make it again "
            "with `md-gie compile`"
        )
    return about


def extract_model(path: Path, folder: Path) -> Path:
    """Write the checkpoint of a package into ``folder`` under the model's name."""
    name = Path(str(read_about(path)["model"])).name
    with zipfile.ZipFile(path) as package:
        target = folder / f"{name}.pt"
        target.write_bytes(package.read(MODEL))
    return target


class PackagedStep:
    """The compiled step of a package; see :data:`md_gie.engine.step.Step`."""

    def __init__(self, path: Path, fallback: Step) -> None:
        self._fallback = fallback
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as package:
            compiled = package.extract(STEP, folder)
            self._compiled = torch._inductor.aoti_load_package(compiled)

    def __call__(self, types: Tensor, edges: Edges) -> StepResult:
        """Evaluate."""
        if min(types.shape[0], edges.n_edges) < MIN_SIZE:
            return self._fallback(types, edges)
        with torch.no_grad():
            return StepResult(*self._compiled(types, *edges))


def packaged_step(path: Path, device: torch.device, fallback: Step) -> Step:
    """Load the step of a package, or warn and take ``fallback`` where it does not fit."""
    made_for, here = read_about(path)["made_for"], describe_device(device)
    different = [
        f"{key} {made_for.get(key)!r} instead of {value!r}"
        for key, value in here.items()
        if made_for.get(key) != value
    ]
    if different:
        warnings.warn(
            f"{path} was compiled for {', '.join(different)}; it runs uncompiled here: make it "
            "again with `md-gie compile` on this machine",
            stacklevel=2,
        )
        return fallback
    return PackagedStep(path, fallback)
