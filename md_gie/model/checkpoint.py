"""Checkpoints in the DPA4 format: reading with every key accounted for, and writing."""

import pickle
import struct
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from md_gie.errors import CheckpointError
from md_gie.model.config import DPA4Config
from md_gie.model.dpa4 import DPA4
from md_gie.model.inventory import FLOAT64_PARAMETERS, parameter_shapes
from md_gie.model.options import DESCRIPTOR_DEFAULTS

# Buffers that are functions of the configuration, or statistics that inference does not use.
_IGNORED_SUFFIXES = (
    ".expand_index", ".balance_weight", ".m0_idx", ".pos_indices", ".neg_indices",
    ".degree_index_m", ".kernel_compact_index", ".kernel_dense_index", ".non_scalar_row_index",
    ".zonal_m0_col_index_for_row", ".radial_slot_index_for_row",
)  # fmt: skip
_IGNORED = {
    "min_nbor_dist", "atomic_model.out_std", "atomic_model.dens_force_rmsd",
    "atomic_model.descriptor.mean", "atomic_model.descriptor.stddev",
    "atomic_model.descriptor.version_tensor",
}  # fmt: skip
_IGNORED_SCOPES = (
    "atomic_model.descriptor.wigner_calc.",
    "atomic_model.descriptor.gie_zonal_wigner_calc.",
)
# What PyTorch raises for files that it did not write, or that were cut or altered.
_READ_ERRORS = (
    pickle.UnpicklingError, zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError,
    RuntimeError, ValueError, TypeError, AttributeError, LookupError, ImportError,
    AssertionError, MemoryError,
)  # fmt: skip


def read_checkpoint(
    path: str | Path, branch: str | None = None
) -> tuple[DPA4Config, dict[str, Tensor]]:
    """Read a DPA4 checkpoint.

    Parameters
    ----------
    path : str or Path
        A ``.pt`` file; optimizer state and moving averages in it are ignored.
    branch : str, optional
        Branch of a multi-task file; needed only if there are several.

    Returns
    -------
    config : DPA4Config
    state : dict of str to Tensor
        Every parameter of the model, by its name without the branch prefix, float64.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    CheckpointError
        If the file is damaged or foreign, holds numbers that are not finite, lacks a parameter,
        has one too many or of another shape, or uses an option that md_gie does not implement.
    """
    path = Path(path)
    state = _load(path)
    extra = state.pop("_extra_state", None)
    if not isinstance(extra, Mapping) or not isinstance(extra.get("model_params"), Mapping):
        raise CheckpointError(
            f"{path} holds no model description (_extra_state with model_params); it is not a DPA4 "
            "checkpoint"
        )
    params, branch = _select_branch(path, extra["model_params"], branch)
    prefix = f"model.{branch}."
    tensors = {key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}
    if branch == "Default" and len(tensors) != len(state):
        stray = next(key for key in state if not key.startswith(prefix))
        raise CheckpointError(f"{path} has a key {stray!r} outside of {prefix}*; refusing to guess")
    config = _config(params, tensors, _version(path, tensors))
    return config, _parameters(path, config, tensors)


def load_model(path: str | Path, branch: str | None = None) -> DPA4:
    """Read a checkpoint into a float64 model on the CPU; errors as :func:`read_checkpoint`."""
    config, state = read_checkpoint(path, branch)
    model = DPA4(config, dtype=torch.float64)
    model.load_state_dict(state)
    return model


def write_checkpoint(path: str | Path, model: DPA4) -> None:
    """Write a model in the DPA4 format (float32 parameters, branch ``Default``), atomically."""
    path = Path(path)
    prefix = "model.Default.atomic_model."
    state: dict[str, Any] = {}
    for name, value in model.state_dict().items():
        kind = torch.float64 if name in FLOAT64_PARAMETERS else torch.float32
        state[prefix + name] = value.detach().to("cpu", kind)
    config = model.config
    dtype = torch.float64
    state[f"{prefix}out_std"] = torch.ones(1, config.n_types, 1, dtype=dtype)
    if config.version > 1.0:
        state[f"{prefix}descriptor.version_tensor"] = torch.tensor(config.version, dtype=dtype)
    state["_extra_state"] = {"model_params": config.model_params(), "train_infos": {}}
    temporary = path.with_name(path.name + ".tmp")
    torch.save({"model": state}, temporary)
    temporary.replace(path)


def _load(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"there is no model file {path}")
    try:
        with warnings.catch_warnings():
            # Of what PyTorch finds unusual about a foreign file, only a failure matters here.
            warnings.simplefilter("ignore")
            _check_sums(path)
            content = torch.load(path, map_location="cpu", weights_only=True)
    except _READ_ERRORS as error:
        # PyTorch's own words give advice that does not hold here.
        reason = str(error) if isinstance(error, zipfile.BadZipFile) else type(error).__name__
        raise CheckpointError(
            f"{path} cannot be read as a checkpoint of plain tensors ({reason}); it is truncated, "
            "foreign, or carries code that md_gie does not run"
        ) from None
    state = content.get("model", content) if isinstance(content, dict) else None
    if not isinstance(state, dict) or not all(isinstance(key, str) for key in state):
        raise CheckpointError(
            f"{path} holds no dictionary of named tensors; it is not a DPA4 model"
        )
    return dict(state)


def _check_sums(path: Path) -> None:
    """Compare the archive's checksums, which PyTorch itself does not."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        if damaged is not None:
            raise zipfile.BadZipFile(f"bad checksum of {damaged}")


def _select_branch(
    path: Path, params: Mapping[str, Any], branch: str | None
) -> tuple[Mapping[str, Any], str]:
    branches = params.get("model_dict")
    if branches is None:
        if branch not in (None, "Default"):
            raise CheckpointError(
                f"{path} has one model and no branch {branch!r}; leave branch out"
            )
        return params, "Default"
    if not isinstance(branches, Mapping) or not branches:
        raise CheckpointError(
            f"{path}: its model_dict is not a dictionary of branches; it is damaged"
        )
    names = ", ".join(map(str, branches))
    if branch is None and len(branches) == 1:
        branch = next(iter(branches))
    if branch is None or branch not in branches:
        came = "no branch was given" if branch is None else f"there is no branch {branch!r}"
        raise CheckpointError(f"{path} is a multi-task file and {came}; choose from: {names}")
    if not isinstance(branches[branch], Mapping):
        raise CheckpointError(f"{path}: branch {branch!r} is not a dictionary of options")
    return branches[branch], branch


def _version(path: Path, tensors: Mapping[str, Any]) -> float:
    version = tensors.get("atomic_model.descriptor.version_tensor", 1.0)
    try:
        return float(version)
    except (TypeError, ValueError, RuntimeError):
        raise CheckpointError(f"{path}: its version_tensor is not one number") from None


def _config(params: Mapping[str, Any], tensors: Mapping[str, Any], version: float) -> DPA4Config:
    """Read the configuration with the stored number of radial functions, which is authoritative."""
    frequencies = tensors.get("atomic_model.descriptor.radial_basis.adam_freqs")
    descriptor = params.get("descriptor")
    if isinstance(descriptor, Mapping) and isinstance(frequencies, Tensor) and frequencies.dim():
        given = descriptor.get("n_radial", DESCRIPTOR_DEFAULTS["n_radial"])
        if "n_radial" not in descriptor or given == DESCRIPTOR_DEFAULTS["n_radial"]:
            n_radial = int(frequencies.shape[-1])
            params = {**params, "descriptor": {**descriptor, "n_radial": n_radial}}
    return DPA4Config.from_model_params(params, version=version)


def _parameters(path: Path, config: DPA4Config, tensors: Mapping[str, Any]) -> dict[str, Tensor]:
    shapes = parameter_shapes(config)
    found: dict[str, Tensor] = {}
    for key, value in tensors.items():
        name = key.removeprefix("atomic_model.")
        if name in shapes and key != name:
            found[name] = value
        elif not (
            key in _IGNORED or key.endswith(_IGNORED_SUFFIXES) or key.startswith(_IGNORED_SCOPES)
        ):
            raise CheckpointError(
                f"{path} has a parameter {key!r} that its options do not announce; it uses a "
                "feature that md_gie does not implement"
            )
    missing = [name for name in shapes if name not in found]
    if missing:
        raise CheckpointError(
            f"{path} lacks {len(missing)} of {len(shapes)} parameters, the first is "
            f"{missing[0]!r}; the file is incomplete"
        )
    for name, shape in shapes.items():
        _check_tensor(path, name, found[name], shape)
    return {name: found[name][: shape[0]].double() for name, shape in shapes.items()}


def _check_tensor(path: Path, name: str, value: Any, shape: tuple[int, ...]) -> None:
    if not isinstance(value, Tensor) or not value.is_floating_point():
        raise CheckpointError(f"{path}: {name!r} is not a floating-point tensor")
    got = tuple(value.shape)
    # More rows of out_bias belong to outputs other than the energy, which is the first.
    if got != shape and not (name == "out_bias" and got[1:] == shape[1:] and got[0] >= 1):
        raise CheckpointError(f"{path}: {name!r} has shape {got}, its options ask for {shape}")
    if value.dtype not in (torch.float32, torch.float64):
        raise CheckpointError(
            f"{path}: {name!r} is {value.dtype}; md_gie takes float32 and float64 parameters"
        )
    if not torch.isfinite(value).all():
        bad = int((~torch.isfinite(value)).sum())
        raise CheckpointError(
            f"{path}: {bad} of {value.numel()} numbers in {name!r} are not finite; the file is "
            "damaged or its training diverged"
        )
