"""Forces of a whole configuration that one process owns."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from md_gie.calculators.lammps_bridge.atoms import Box, OwnAtoms
from md_gie.calculators.lammps_bridge.settings import Settings
from md_gie.engine import Engine, Evaluation
from md_gie.engine.checks import check_contacts
from md_gie.errors import ConfigError, MDGIEError
from md_gie.neighbors import NeighborCache

_VOIGT = ([0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2])  # xx yy zz xy xz yz, as LAMMPS wants them


class Shares(NamedTuple):
    """What one process knows after an evaluation; its atoms are in the order of their ids.

    Attributes
    ----------
    forces : (n, 3) float64, eV/Å
    energies : (n,) float64, eV
    virials : (n, 6) float64, eV, or None
        Components xx yy zz xy xz yz; only if asked for.
    energy : float, eV
        Of the process's own atoms.
    virial : (6,) float64, eV
        The process's part; the parts of all processes add up to the virial.
    """

    forces: NDArray[np.float64]
    energies: NDArray[np.float64]
    virials: NDArray[np.float64] | None
    energy: float
    virial: NDArray[np.float64]


class ForceProvider(Protocol):
    """From the atoms that LAMMPS has to their forces."""

    def compute(self, atoms: OwnAtoms, box: Box, changed: bool, virials: bool) -> Shares:
        """Evaluate; ``changed`` tells that the atoms or their types are others than before."""
        ...


class SerialForces:
    """Forces from a periodic graph of the process's own atoms; LAMMPS's ghosts are not read.

    Parameters
    ----------
    engine : Engine
    settings : Settings
        Elements and skin.
    """

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._table = TypeTable(engine, settings)
        self._cache = NeighborCache(engine.cutoff, settings.skin, device=engine.device)
        self._types = torch.zeros(0, dtype=torch.int64)

    def compute(self, atoms: OwnAtoms, box: Box, changed: bool, virials: bool) -> Shares:
        """See :class:`ForceProvider`."""
        if changed:
            self._types = self._table.model_types(atoms.types, atoms.ids)
        if not len(atoms.ids):
            return no_shares(virials)
        try:
            edges = self._cache.update(atoms.positions, box.cell, box.pbc)
            check_contacts(edges, self._cache.coincident_pair())
            evaluation = self._engine.evaluate(self._types, edges, atomic_virials=virials)
        except MDGIEError as error:
            name_atoms(error, atoms.ids)
            raise
        return as_shares(evaluation, len(atoms.ids))


class TypeTable:
    """From LAMMPS's types to those of the model.

    Raises
    ------
    StructureError
        If the model does not know an element; the message has the mapping that was given.
    """

    def __init__(self, engine: Engine, settings: Settings) -> None:
        numbers = np.array(settings.numbers(), np.int64)
        self._settings = settings
        self._device = engine.device
        self._table = np.full(len(numbers), -1, np.int64)
        try:
            known = engine.types_of(numbers[numbers > 0].tolist())
        except MDGIEError as error:
            unknown = ", ".join(error.data.get("symbols", ()))
            raise type(error)(
                f"{engine.name} does not know {unknown} ({settings.mapping()}); it knows "
                f"{', '.join(engine.species)}: name the elements in the order of the types",
                **error.data,
            ) from error
        self._table[numbers > 0] = known.cpu().numpy()

    def model_types(
        self, types: NDArray[np.int64], ids: Sequence[int] | NDArray[np.int64]
    ) -> Tensor:
        """Model types (n,) of LAMMPS's types (n,); ConfigError for one declared as unused."""
        found = self._table[types - 1]
        unused = np.flatnonzero(found < 0)
        if len(unused):
            atom = int(unused[0])
            raise ConfigError(
                f"atom {ids[atom]} has type {types[atom]}, for which no element was given "
                f"({self._settings.mapping()}); name its element"
            )
        return torch.from_numpy(found).to(self._device)


def as_shares(evaluation: Evaluation, n_own: int) -> Shares:
    """Bring an evaluation to the host, cut to the first ``n_own`` atoms."""
    virials = None
    if evaluation.atomic_virials is not None:
        virials = symmetric_components(evaluation.atomic_virials[:n_own].cpu().numpy())
    return Shares(
        forces=evaluation.forces[:n_own].cpu().numpy(),
        energies=evaluation.atomic_energies[:n_own].cpu().numpy(),
        virials=virials,
        energy=float(evaluation.energy),
        virial=symmetric_components(evaluation.virial.cpu().numpy()),
    )


def symmetric_components(virial: NDArray[np.float64]) -> NDArray[np.float64]:
    """Components xx yy zz xy xz yz (..., 6) of the symmetric part of (..., 3, 3)."""
    both = 0.5 * (virial + np.swapaxes(virial, -1, -2))
    return np.ascontiguousarray(both[..., _VOIGT[0], _VOIGT[1]])


def no_shares(virials: bool) -> Shares:
    """Shares of a process without atoms."""
    return Shares(
        np.zeros((0, 3)), np.zeros(0), np.zeros((0, 6)) if virials else None, 0.0, np.zeros(6)
    )


def name_atoms(error: MDGIEError, ids: NDArray[np.int64]) -> None:
    """Add LAMMPS's ids to an error that names atoms by their number in the order of ids."""
    atoms = [int(ids[i]) for i in error.data.get("atoms", ()) if 0 <= i < len(ids)]
    if atoms:
        shown = ", ".join(map(str, atoms[:5])) + (", …" if len(atoms) > 5 else "")
        error.args = (f"{error.args[0]} (LAMMPS ids {shown})",)
