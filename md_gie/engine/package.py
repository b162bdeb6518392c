"""Making compiled packages: a model with its step, compiled ahead of time for one device."""

import hashlib
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim

from md_gie.engine.compiled import MIN_SIZE, example, trace
from md_gie.engine.dpa4 import DTYPES, DPA4Engine
from md_gie.engine.packaged import (
    ABOUT,
    FORMAT,
    MODEL,
    STEP,
    describe_device,
    extract_model,
    is_package,
    read_about,
)
from md_gie.engine.precision import matmul_precision
from md_gie.engine.step import ModelStep, Step
from md_gie.engine.trial import try_out
from md_gie.model import load_model

__all__ = ["is_package", "load_package", "write_package"]


def write_package(
    output: str | os.PathLike[str],
    checkpoint: Path,
    *,
    device: torch.device,
    dtype: str = "float32",
    kernels: str = "auto",
    tf32: bool = False,
    branch: str | None = None,
) -> dict[str, Any]:
    """Compile the step of a model and write it together with the model's checkpoint.

    Parameters
    ----------
    output : path
        File to write; it appears only when complete.
    checkpoint : Path
        The model's file.
    device, dtype, kernels, tf32, branch
        As for :func:`md_gie.load_potential`.

    Returns
    -------
    dict
        What the package says of itself.

    Raises
    ------
    CompilationError
        If a fresh process cannot use what was compiled; nothing is written then.
    """
    model = load_model(checkpoint, branch).freeze(DTYPES[dtype], device, kernels)
    about = {
        "format": FORMAT,
        "model": checkpoint.stem,
        "sha256": hashlib.sha256(checkpoint.read_bytes()).hexdigest(),
        "species": list(model.config.type_map),
        "cutoff_A": model.config.rcut,
        "dtype": dtype,
        "kernels": kernels,
        "tf32": tf32,
        "branch": branch,
        "made_for": describe_device(device),
    }
    target = Path(output)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        compiled, whole = Path(folder) / STEP, Path(folder) / "package"
        with matmul_precision(device, tf32=tf32):
            step = ModelStep(model)
            _compile(step, device, compiled)
            try_out(compiled, step, device, model.config.rcut)
        with zipfile.ZipFile(whole, "w") as package:
            package.writestr(ABOUT, json.dumps(about, indent=1))
            package.write(checkpoint, MODEL)
            package.write(compiled, STEP)
        whole.replace(target)
    return about


def _compile(step: Step, device: torch.device, output: Path) -> None:
    graph = trace(step, device)
    types, values = example(device)
    # Sizes without names of their own: PyTorch 2.11 refuses named ones, for it cannot prove of them
    # that 96 N is below 864 N. The graph itself knows which sizes go together.
    shapes = [{0: Dim.DYNAMIC(min=MIN_SIZE)} for _ in range(1 + len(values))]
    with torch.no_grad():
        program = torch.export.export(graph, (types, *values), dynamic_shapes=tuple(shapes))
        torch._inductor.aoti_compile_and_package(program, package_path=os.fspath(output))


def load_package(
    path: Path,
    *,
    device: torch.device,
    dtype: str,
    branch: str | None,
    kernels: str,
    compile: bool | str,  # noqa: A002
    tf32: bool,
) -> DPA4Engine:
    """Engine of a package; its step is compiled already where it was made for this device.

    Raises
    ------
    CheckpointError
        If the package is damaged.
    ValueError
        If it was compiled with another dtype, branch or TF32 setting.
    """
    about = read_about(path)
    for name, wanted in (("dtype", dtype), ("branch", branch), ("tf32", tf32)):
        if about[name] != wanted:
            raise ValueError(
                f"{path} was compiled with {name} = {about[name]!r}, not {wanted!r}; pass the same "
                "or compile another package"
            )
    with tempfile.TemporaryDirectory() as folder:
        model = load_model(extract_model(path, Path(folder)), branch)
    return DPA4Engine(
        model, name=str(about["model"]), device=device, dtype=DTYPES[dtype], kernels=kernels,
        compile=compile, tf32=tf32, package=path,
    )  # fmt: skip
