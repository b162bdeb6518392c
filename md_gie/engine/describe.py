"""A model in a few lines of text."""

import hashlib
import os

from md_gie.engine.load import resolve_model
from md_gie.model import read_checkpoint

_WIDTH = 12


def describe_model(model: str | os.PathLike[str], branch: str | None = None) -> str:
    """Tell what a model is, without loading it onto a device.

    Parameters
    ----------
    model : str or path
        Name of a bundled model, or a DPA4 checkpoint (``.pt``).
    branch : str, optional
        Branch of a multi-task file.

    Returns
    -------
    str
        Several lines, without a newline at the end.

    Raises
    ------
    FileNotFoundError
        If there is no such model.
    CheckpointError
        If it cannot be used; see :func:`md_gie.model.read_checkpoint`.
    """
    path = resolve_model(model)
    config, state = read_checkpoint(path, branch)
    content = path.read_bytes()
    n_parameters = sum(tensor.numel() for tensor in state.values())
    reach = config.rcut * (len(config.degrees) + 1)
    degrees, orders = (" ".join(map(str, numbers)) for numbers in (config.degrees, config.orders))
    facts = {
        "model": path.stem,
        "file": path,
        "sha256": hashlib.sha256(content).hexdigest(),
        "size": f"{len(content) / 2**20:.3g} MiB, {n_parameters} numbers, statistics included",
        "elements": " ".join(config.type_map),
        "cutoff": f"{config.rcut:g} Å",
        "blocks": f"{len(config.degrees)}: an atom feels others up to {reach:g} Å away",
        "degrees": f"{degrees or 'none'} (largest of each block)",
        "orders": f"{orders or 'none'} (largest of each block)",
        "channels": config.channels,
        "radial": f"{config.n_radial} functions, {config.basis_type}",
    }
    if branch is not None:
        facts["branch"] = branch
    return "\n".join(f"{name:<{_WIDTH - 1}} {value}" for name, value in facts.items())
