"""load_potential: from a model's name or file to an engine."""

import os
from pathlib import Path

import torch

from md_gie.engine.base import Engine
from md_gie.engine.eager import EagerEngine
from md_gie.model import load_model

DTYPES = {"float32": torch.float32, "float64": torch.float64}
KERNELS = ("auto", "triton", "reference")
_BUNDLED = Path(__file__).parent.parent / "models"


def bundled_models() -> tuple[str, ...]:
    """Names of the models that come with md_gie."""
    return tuple(sorted(path.stem for path in _BUNDLED.glob("*.pt")))


def resolve_model(model: str | os.PathLike[str]) -> Path:
    """Path of a bundled model's name or of a model file.

    Raises
    ------
    FileNotFoundError
        If it is neither; the message lists the bundled models.
    """
    path = Path(model)
    if path.is_file():
        return path
    bundled = _BUNDLED / f"{os.fspath(model)}.pt"
    if bundled.parent == _BUNDLED and bundled.is_file():
        return bundled
    raise FileNotFoundError(
        f"there is no model file {os.fspath(model)!r}, and it is not a bundled model "
        f"({', '.join(bundled_models()) or 'none'})"
    )


def load_potential(
    model: str | os.PathLike[str],
    *,
    device: str = "auto",
    dtype: str = "float32",
    kernels: str = "auto",
    branch: str | None = None,
) -> Engine:
    """Load a potential.

    Parameters
    ----------
    model : str or path
        Name of a bundled model (``"water-s"``), or a DPA4 checkpoint (``.pt``).
    device : str
        ``auto`` (CUDA if there is one, else CPU) or any torch device.
    dtype : str
        Arithmetic of the network, ``float32`` or ``float64``.
    kernels : str
        ``auto`` takes compiled kernels where they support the input, ``reference`` takes plain
        PyTorch, ``triton`` insists on Triton kernels. The environment variable
        ``MD_GIE_KERNELS`` overrides it.
    branch : str, optional
        Branch of a multi-task checkpoint.

    Returns
    -------
    Engine
        See :class:`md_gie.engine.base.Engine`.

    Raises
    ------
    FileNotFoundError
        If there is no such model.
    CheckpointError
        If the file cannot be used; see :func:`md_gie.model.read_checkpoint`.
    ValueError
        If an option is not one of those above, or the device is not there.
    """
    kernels = os.environ.get("MD_GIE_KERNELS", kernels)
    if kernels not in KERNELS:
        raise ValueError(f"kernels = {kernels!r} is none of {', '.join(KERNELS)}")
    if kernels == "triton":
        raise ValueError(
            "kernels = 'triton', but this version has no Triton kernels; use 'auto' or 'reference'"
        )
    if dtype not in DTYPES:
        raise ValueError(f"dtype = {dtype!r} is none of {', '.join(DTYPES)}")
    place = _device(device)
    path = resolve_model(model)
    parameters = load_model(path, branch)
    return EagerEngine(
        parameters, name=path.stem, device=place, dtype=DTYPES[dtype], kernels=kernels
    )


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device: torch.device | None
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ValueError(f"device = {name!r} is not a device of md_gie; use auto, cpu or cuda")
    if device.type == "cpu" and device.index not in (None, 0):
        raise ValueError(f"device = {name!r}, but there is one CPU; use cpu")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device = {name!r}, but this PyTorch finds no CUDA device; use cpu")
    return device
