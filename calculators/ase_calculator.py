"""GIECalculator: DPA4 potentials as an ASE calculator."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator, PropertyNotImplementedError, all_changes
from torch import Tensor

from md_gie.engine import Evaluation, load_potential
from md_gie.engine.checks import check_contacts
from md_gie.errors import StructureError
from md_gie.neighbors import NeighborCache

_STRESSES = ("stress", "stresses")


class GIECalculator(Calculator):
    """Energy, forces and stress of a DPA4 potential.

    Energy and forces are always computed together. Once a stress was asked for, it is computed in
    every later evaluation as well, so that a barostat costs one evaluation a step.

    Parameters
    ----------
    model : str or path
        Name of a bundled model (``"water-s"``), or a DPA4 checkpoint (``.pt``).
    device : str
        ``auto`` (CUDA if there is one, else CPU) or any torch device.
    dtype : str
        Arithmetic of the network, ``float32`` or ``float64``. Positions, sums and results are
        float64 always.
    kernels : str
        ``auto``, ``triton`` or ``reference``.
    skin : float, Å
        Margin of the neighbor list: larger means rarer rebuilds, each step a little slower.
    branch : str, optional
        Branch of a multi-task checkpoint.

    Raises
    ------
    FileNotFoundError, CheckpointError, ValueError
        On construction, as :func:`md_gie.load_potential`.
    StructureError
        On evaluation: no atoms, an element that the model does not know, numbers that are not
        finite, a collapsed cell, or atoms on top of each other.
    SimulationError
        On evaluation: an energy or force that is not finite.
    PropertyNotImplementedError
        A stress without periodicity or without volume.

    Notes
    -----
    ``stresses`` holds each atom's share of the stress: an edge's share goes half to either atom, and
    the shares add up to ``stress``. ``atoms.info``, charges and magnetic moments are not read.

    Examples
    --------
    >>> from ase.build import molecule
    >>> from md_gie import GIECalculator
    >>> atoms = molecule("H2O")
    >>> atoms.calc = GIECalculator("water-s")
    >>> energy = atoms.get_potential_energy()
    """

    implemented_properties = [
        "energy", "free_energy", "forces", "energies", "stress", "stresses",
    ]  # fmt: skip
    ignored_changes = {"initial_charges", "initial_magmoms"}

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        device: str = "auto",
        dtype: str = "float32",
        kernels: str = "auto",
        skin: float = 0.5,
        branch: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.engine = load_potential(
            model, device=device, dtype=dtype, kernels=kernels, branch=branch
        )
        self.skin = skin
        self._cache = self._new_cache()
        self._types: Tensor | None = None
        self._numbers: np.ndarray | None = None
        self._wanted: set[str] = set()

    def _new_cache(self) -> NeighborCache:
        return NeighborCache(self.engine.cutoff, self.skin, device=self.engine.device)

    def __getstate__(self) -> dict[str, Any]:
        # A neighbor list is cheap to build and holds buffers of its own device: leave it behind.
        return {key: value for key, value in self.__dict__.items() if key != "_cache"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._cache = self._new_cache()

    def reset(self) -> None:
        """Forget results and the neighbor list."""
        super().reset()  # type: ignore[no-untyped-call]
        if hasattr(self, "_cache"):
            self._cache.reset()

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: Sequence[str] = ("energy",),
        system_changes: Sequence[str] = tuple(all_changes),
    ) -> None:
        """Evaluate ``atoms`` and fill ``results``; the arrays there are this call's own."""
        super().calculate(atoms, properties, system_changes)  # type: ignore[no-untyped-call]
        assert self.atoms is not None
        atoms = self.atoms
        unknown = set(properties) - set(self.implemented_properties)
        if unknown:
            raise PropertyNotImplementedError(
                f"GIECalculator has no {', '.join(sorted(unknown))}; it has "
                f"{', '.join(self.implemented_properties)}"
            )
        if len(atoms) == 0:
            raise StructureError("the Atoms object is empty; at least one atom is needed")
        self._wanted |= set(properties) & set(_STRESSES)
        has_stress = bool(atoms.pbc.any()) and atoms.cell.rank == 3
        if not has_stress and set(properties) & set(_STRESSES):
            raise PropertyNotImplementedError(
                f"a stress needs a periodic axis and a cell with a volume; pbc is "
                f"{atoms.pbc.tolist()} and the cell has rank {atoms.cell.rank}"
            )
        per_atom = has_stress and "stresses" in self._wanted
        results = self._evaluate(atoms, atomic_virials=per_atom)
        self.results = _as_results(results)
        if has_stress and self._wanted:
            self.results |= _stress_results(results, atoms.get_volume())

    def _evaluate(self, atoms: Atoms, *, atomic_virials: bool) -> Evaluation:
        if self._numbers is None or not np.array_equal(self._numbers, atoms.numbers):
            self._types = self.engine.types_of(atoms.numbers)
            self._numbers = atoms.numbers.copy()
        assert self._types is not None
        edges = self._cache.update(atoms.positions, atoms.cell.array, atoms.pbc)
        check_contacts(edges, self._cache.coincident_pair())
        return self.engine.evaluate(self._types, edges, atomic_virials=atomic_virials)


def _as_results(evaluation: Evaluation) -> dict[str, Any]:
    energy = float(evaluation.energy)
    return {
        "energy": energy,
        "free_energy": energy,
        "forces": evaluation.forces.cpu().numpy().copy(),
        "energies": evaluation.atomic_energies.cpu().numpy().copy(),
    }


def _stress_results(evaluation: Evaluation, volume: float) -> dict[str, Any]:
    stress = -evaluation.virial.cpu().numpy() / volume
    results = {"stress": _voigt(stress)}
    if evaluation.atomic_virials is not None:
        shares = -evaluation.atomic_virials.cpu().numpy() / volume
        results["stresses"] = _voigt(shares)
    return results


def _voigt(stress: np.ndarray) -> np.ndarray:
    """Components xx, yy, zz, yz, xz, xy of (..., 3, 3)."""
    return stress[..., [0, 1, 2, 1, 0, 0], [0, 1, 2, 2, 2, 1]]
