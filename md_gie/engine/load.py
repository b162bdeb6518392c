"""load_potential: from a model's name or file to an engine."""

import os
from pathlib import Path

import torch

from md_gie.engine.base import Engine
from md_gie.engine.dpa4 import DTYPES, DPA4Engine
from md_gie.engine.package import is_package, load_package
from md_gie.model import load_model
from md_gie.ops import launch

KERNELS = ("auto", "triton", "reference")
COMPILE = (False, True, "graph", "capture", "auto")
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
    compile: bool | str = False,  # noqa: A002
    tf32: bool = False,
    branch: str | None = None,
) -> Engine:
    """Load a potential.

    Parameters
    ----------
    model : str or path
        Name of a bundled model (``"water-s"``), a DPA4 checkpoint (``.pt``), or a package of
        ``md-gie compile``, whose ``dtype``, ``tf32`` and ``branch`` are settled.
    device : str
        ``auto`` (CUDA if there is one, else CPU) or any torch device.
    dtype : str
        Arithmetic of the network, ``float32`` or ``float64``.
    kernels : str
        ``auto`` takes compiled kernels where they support the input, ``reference`` takes plain
        PyTorch, ``triton`` insists on Triton kernels. The environment variable
        ``MD_GIE_KERNELS`` overrides it.
    compile : bool or str
        True compiles the whole evaluation at its first call, which takes some minutes, for any
        number of atoms and edges; ``graph`` also replays it as a CUDA graph. ``capture`` replays
        the evaluation as it is, without a compiler: ready in a second, and as fast as a GPU can go
        where launching kernels takes longer than running them. ``auto`` captures on a GPU.
    tf32 : bool
        Let a GPU multiply float32 matrices in TF32: faster, with errors about a thousand times
        those of float32.
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
    if dtype not in DTYPES:
        raise ValueError(f"dtype = {dtype!r} is none of {', '.join(DTYPES)}")
    place = find_device(device)
    _check_modes(kernels, compile, place)
    path = resolve_model(model)
    if compile == "auto":
        compile = "capture" if place.type == "cuda" and not is_package(path) else False  # noqa: A001
    if is_package(path):
        return load_package(
            path, device=place, dtype=dtype, branch=branch, kernels=kernels, compile=compile,
            tf32=tf32,
        )  # fmt: skip
    return DPA4Engine(
        load_model(path, branch), name=path.stem, device=place, dtype=DTYPES[dtype],
        kernels=kernels, compile=compile, tf32=tf32,
    )  # fmt: skip


def _check_modes(kernels: str, compile_mode: bool | str, device: torch.device) -> None:
    if kernels == "triton" and not (device.type == "cuda" and launch.has_triton()):
        raise ValueError(
            f"kernels = 'triton' needs a CUDA device and Triton; the device is {device} and Triton "
            f"is {'' if launch.has_triton() else 'not '}installed; use 'auto' or 'reference'"
        )
    if compile_mode not in COMPILE:
        raise ValueError(f"compile = {compile_mode!r} is none of {', '.join(map(repr, COMPILE))}")
    if compile_mode in ("graph", "capture") and device.type != "cuda":
        raise ValueError(
            f"compile = {compile_mode!r} needs a CUDA device, not {device}; use True or False"
        )


def find_device(name: str) -> torch.device:
    """Device of a name; ``auto`` is CUDA if there is one, else the CPU.

    Raises
    ------
    ValueError
        If there is no such device.
    """
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
