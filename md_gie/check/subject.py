"""What is tested: a structure, and engines that evaluate it and what is made from it."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from md_gie.engine import Engine, Evaluation, load_potential
from md_gie.engine.checks import check_contacts
from md_gie.neighbors import NeighborCache
from md_gie.structure import Structure

Floats = NDArray[np.float64]


class Numbers(NamedTuple):
    """An evaluation on the host: energy in eV, forces (N, 3) in eV/Å, virial (3, 3) in eV."""

    energy: float
    forces: Floats
    virial: Floats
    atomic_energies: Floats


class Subject:
    """A structure and the engines of one model.

    Parameters
    ----------
    structure : Structure
    model : str
        Name or file.
    device, dtype, kernels : str
        As in :func:`md_gie.load_potential`; what users would run.
    branch : str, optional
    compiles : bool
        Whether to compile the model too, which takes about a minute.

    Attributes
    ----------
    engine : Engine
        With these settings.
    precise : Engine
        The same in float64, with the same kernels.
    """

    def __init__(
        self,
        structure: Structure,
        model: str,
        *,
        device: str = "auto",
        dtype: str = "float32",
        kernels: str = "auto",
        branch: str | None = None,
        compiles: bool = True,
    ) -> None:
        self.structure = structure
        self.compiles = compiles
        self.model = model
        self.settings: dict[str, Any] = {
            "device": device,
            "dtype": dtype,
            "kernels": kernels,
            "branch": branch,
        }
        self.engine = self.load()
        self.precise = self.engine if dtype == "float64" else self.load(dtype="float64")

    def load(self, **changes: Any) -> Engine:
        """Load the model with some settings changed."""
        return load_potential(self.model, **{**self.settings, **changes})


def evaluate(engine: Engine, structure: Structure) -> Numbers:
    """Evaluate a structure with a neighbour list of its own."""
    cache = NeighborCache(engine.cutoff, 0.0, device=engine.device)
    edges = cache.update(structure.positions, structure.cell, structure.pbc)
    check_contacts(edges, cache.coincident_pair())
    return on_host(engine.evaluate(engine.types_of(structure.numbers.tolist()), edges))


def on_host(evaluation: Evaluation) -> Numbers:
    """Copy an evaluation to NumPy."""
    return Numbers(
        float(evaluation.energy),
        _array(evaluation.forces),
        _array(evaluation.virial),
        _array(evaluation.atomic_energies),
    )


def _array(tensor: torch.Tensor) -> Floats:
    array: Floats = tensor.detach().cpu().double().numpy().copy()
    return array
