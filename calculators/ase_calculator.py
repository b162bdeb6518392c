"""GIECalculator: DPA4 potentials as an ASE calculator."""

import difflib
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator, PropertyNotImplementedError, all_changes
from numpy.typing import NDArray
from torch import Tensor

from md_gie.engine import Engine, Evaluation, load_potential
from md_gie.engine.checks import check_contacts
from md_gie.errors import StructureError
from md_gie.neighbors import NeighborCache
from md_gie.structure import real_array

_DEFAULTS = {
    "device": "auto", "dtype": "float32", "kernels": "auto", "compile": False, "tf32": False,
    "skin": 0.5, "branch": None,
}  # fmt: skip
_SETTINGS = ("model", *_DEFAULTS)
_FLAT = 1e-9  # volume over the product of the edges, below which a cell has no volume


class GIECalculator(Calculator):
    """Energy, forces and stress of a DPA4 potential.

    Energy, forces and, where there is a volume, stress always come from one evaluation, so that a
    barostat costs one evaluation a step.

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
    compile : bool or str
        False, True or ``graph``: see :func:`md_gie.load_potential`. Worth minutes for long runs.
    tf32 : bool
        Let a GPU multiply float32 matrices in TF32: faster and less exact.
    skin : float, Å
        Margin of the neighbor list: larger means rarer rebuilds, each step a little slower.
    branch : str, optional
        Branch of a multi-task checkpoint.
    atoms, label, directory : optional
        As for any ASE calculator. Nothing is written to the directory.

    Raises
    ------
    FileNotFoundError, CheckpointError, ValueError
        On construction and by :meth:`set`, as :func:`md_gie.load_potential`.
    StructureError
        On evaluation: no atoms, an element that the model does not know, numbers that are not
        finite, a collapsed cell, or atoms on top of each other.
    SimulationError
        On evaluation: an energy or force that is not finite.
    PropertyNotImplementedError
        A stress without periodicity or without volume, or a property that the model lacks.

    Notes
    -----
    Errors about a structure are the same through every door of md_gie; they are ``ValueError`` or
    ``RuntimeError``, not ASE's ``CalculatorError``. After an error there are no results, and the
    next good structure is evaluated as by a fresh calculator.

    Stress is per volume of the whole cell, vacuum included. ``stresses`` holds each atom's share
    of it: an edge's share goes half to either atom, and the shares add up to ``stress``. They are
    computed in every evaluation after the first that was asked for them.

    ``atoms.info``, tags, charges and magnetic moments are not read, nor are lattice vectors of axes
    without ``pbc``, but for the volume.

    Examples
    --------
    >>> from ase.build import molecule
    >>> from md_gie import GIECalculator
    >>> atoms = molecule("H2O")
    >>> atoms.calc = GIECalculator("water-s")
    >>> energy = atoms.get_potential_energy()
    """

    # Class attributes by ASE's convention, which its base class declares as an instance's.
    implemented_properties = ["energy", "free_energy", "forces", "energies", "stress", "stresses"]  # noqa: RUF012
    ignored_changes = {"initial_charges", "initial_magmoms"}  # noqa: RUF012
    default_parameters = dict(_DEFAULTS)  # noqa: RUF012
    _engine: Engine | None = None
    _numbers: NDArray[np.int64] | None = None
    _types: Tensor | None = None
    _shares_wanted = False

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        device: str = "auto",
        dtype: str = "float32",
        kernels: str = "auto",
        compile: bool | str = False,  # noqa: A002
        tf32: bool = False,
        skin: float = 0.5,
        branch: str | None = None,
        atoms: Atoms | None = None,
        label: str | None = None,
        directory: str | os.PathLike[str] = ".",
    ) -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            label=label,
            directory=directory,
            model=os.fspath(model),
            device=device,
            dtype=dtype,
            kernels=kernels,
            compile=compile,
            tf32=tf32,
            skin=skin,
            branch=branch,
        )
        if atoms is not None:
            atoms.calc = self

    @property
    def engine(self) -> Engine:
        """The potential; :meth:`set` changes it."""
        assert self._engine is not None
        return self._engine

    @property
    def skin(self) -> float:
        """Margin of the neighbor list in Å; :meth:`set` changes it."""
        return self._cache.skin

    def set(self, **settings: Any) -> dict[str, Any]:
        """Change settings by the names of the constructor; return those that were changed.

        Results are forgotten; the model is read again unless only ``skin`` changes. After an error
        everything is as it was.

        Raises
        ------
        TypeError
            A setting that does not exist.
        """
        known = ["model", *self.default_parameters]
        for name in settings.keys() - set(known):
            close = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {close[0]}" if close else ""
            raise TypeError(f"GIECalculator has no setting {name!r}, only {', '.join(known)}{hint}")
        if "model" in settings:
            settings["model"] = os.fspath(settings["model"])
        if "device" in settings:
            settings["device"] = str(settings["device"])  # files can hold that
        wanted = {**self.parameters, **settings}
        skin = wanted.pop("skin")
        engine = self._engine
        if engine is None or settings.keys() - {"skin"}:
            engine = load_potential(**wanted)
        cache = NeighborCache(engine.cutoff, skin, device=engine.device)
        changed: dict[str, Any] = super().set(**settings)  # type: ignore[no-untyped-call]
        self._engine, self._cache = engine, cache
        self._numbers = None
        self.reset()
        return changed

    def reset(self) -> None:
        """Forget results and the neighbor list."""
        super().reset()  # type: ignore[no-untyped-call]
        self._cache.reset()

    def get_spin_polarized(self) -> bool:
        """Tell ASE that there is no spin."""
        # ASE would bind a deprecated method to each object, a cycle that keeps the model alive.
        return False

    def _get_name(self) -> str:
        return "md_gie"

    def __getstate__(self) -> dict[str, Any]:
        # A neighbor list is cheap to build and holds buffers of its own device: leave it behind.
        return {key: value for key, value in self.__dict__.items() if key != "_cache"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        skin = self.parameters["skin"]
        self._cache = NeighborCache(self.engine.cutoff, skin, device=self.engine.device)

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: Sequence[str] = ("energy",),
        system_changes: Sequence[str] = tuple(all_changes),
    ) -> None:
        """Evaluate ``atoms`` and fill ``results``; the arrays there are this call's own."""
        self.results = {}  # an error must not leave those of another structure
        super().calculate(atoms, properties, system_changes)  # type: ignore[no-untyped-call]
        atoms = self.atoms
        if atoms is None:
            raise ValueError("there is no structure to evaluate yet; pass an Atoms object")
        unknown = set(properties) - set(self.implemented_properties)
        if unknown:
            raise PropertyNotImplementedError(
                f"GIECalculator has no {', '.join(sorted(unknown))}; it has "
                f"{', '.join(self.implemented_properties)}"
            )
        if len(atoms) == 0:
            raise StructureError("the Atoms object is empty; at least one atom is needed")
        self._shares_wanted |= "stresses" in properties
        evaluation = self._evaluate(atoms)
        self.results = _as_results(evaluation)
        volume = _volume(atoms)
        if volume is not None:
            self.results |= _stress_results(evaluation, volume)
        elif {"stress", "stresses"} & set(properties):
            raise PropertyNotImplementedError(
                "a stress needs a periodic axis and three lattice vectors with a volume; pbc is "
                f"{atoms.pbc.tolist()} and the cell {atoms.cell.tolist()}"
            )

    def _evaluate(self, atoms: Atoms) -> Evaluation:
        if self._numbers is None or not np.array_equal(self._numbers, atoms.numbers):
            self._types = self.engine.types_of(atoms.numbers)
            self._numbers = atoms.numbers.copy()
        assert self._types is not None
        positions = real_array("positions", atoms.positions)
        edges = self._cache.update(positions, atoms.cell.array, atoms.pbc)
        check_contacts(edges, self._cache.coincident_pair())
        return self.engine.evaluate(self._types, edges, atomic_virials=self._shares_wanted)


def _volume(atoms: Atoms) -> float | None:
    """Volume in Å³, or None if there is none that a stress could refer to."""
    if not atoms.pbc.any():
        return None
    volume = abs(float(np.linalg.det(atoms.cell.array)))
    edges = float(np.linalg.norm(atoms.cell.array, axis=1).prod())
    return volume if volume > _FLAT * edges else None


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


def _voigt(stress: NDArray[np.float64]) -> NDArray[np.float64]:
    """Components xx, yy, zz, yz, xz, xy of (..., 3, 3)."""
    return stress[..., [0, 1, 2, 1, 0, 0], [0, 1, 2, 2, 2, 1]]
