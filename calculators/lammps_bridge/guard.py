"""Guards on LAMMPS's dynamics: temperature and energy from step to step, on all ranks as one."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from md_gie.calculators.lammps_bridge.api import LammpsAPI
from md_gie.calculators.lammps_bridge.atoms import Box, OwnAtoms
from md_gie.calculators.lammps_bridge.settings import Settings
from md_gie.engine.guards import REMEDY, Sample, StepWatch, name_extremes, save_frame
from md_gie.errors import MDGIEError, SimulationError
from md_gie.structure import Structure, write_structure
from md_gie.units import AMU_A2_FS2_EV

_FS_PER_TIME = {"metal": 1000.0, "real": 1.0}
_SAME_EV = 1e-4  # by atom: what rounding may do to the energy of the same configuration
_NEVER = -2  # no step follows on it


class _Atoms(NamedTuple):
    """Own atoms, or all of them, with velocities in Å/fs and forces in eV/Å."""

    ids: NDArray[np.int64]
    types: NDArray[np.int64]
    positions: NDArray[np.float64]
    velocities: NDArray[np.float64]
    masses: NDArray[np.float64]
    forces: NDArray[np.float64]


class LammpsGuard:
    """Stops dynamics that is no longer physical, and keeps its frame.

    Minimization, ``rerun``, the set-up of runs, and steps at which atoms come, go, change their
    type or are tried elsewhere (``fix gcmc``, ``fix atom/swap``) are compared with nothing.

    Parameters
    ----------
    api : LammpsAPI
    fix : str
        Its ID begins the name of the frame's file.
    settings : Settings
    communicator : mpi4py.MPI.Comm or None
    """

    def __init__(self, api: LammpsAPI, fix: str, settings: Settings, communicator: Any) -> None:
        self._api, self._settings, self._communicator = api, settings, communicator
        self._frame = Path(f"{fix}.failed.extxyz")
        self._watch = StepWatch(settings.limits)
        self._velocity_unit = 1.0 / _FS_PER_TIME[api.text("units")]
        self._step = _NEVER
        self._in_dynamics = self._repeated = False
        self._potential: float | None = None
        self._atoms: tuple[float, float] | None = None
        self._own_fingerprint = 0.0

    def begin(self, step: int) -> None:
        """Look at what kind of force call this is."""
        minimizing = self._api.has_fix("MINIMIZE")  # LAMMPS has it for as long as it minimizes
        # Where a step was not stepped to but set (rerun, reset_timestep), so was LAMMPS's clock.
        was_set = int(self._api.numbers("atimestep", 1, np.int64)[0]) == step
        self._in_dynamics = step == self._step + 1 and not was_set and not minimizing
        self._repeated = step == self._step
        self._step = _NEVER if minimizing else step

    def sums(self, atoms: OwnAtoms, changed: bool) -> NDArray[np.float64]:
        """Own share (4,) of what :meth:`check` needs: kinetic energy, and counts of atoms."""
        if changed:
            # Differs, all but surely, if one atom has another type.
            self._own_fingerprint = float(np.dot(atoms.ids, atoms.types))
        n_own = len(atoms.ids)
        velocities = self._api.atoms("v", n_own)
        squares = np.einsum("ij,ij->i", velocities, velocities)
        kinetic = (
            0.5 * AMU_A2_FS2_EV * self._velocity_unit**2 * np.dot(self._masses(n_own), squares)
        )
        return np.array([kinetic, np.count_nonzero(squares), n_own, self._own_fingerprint])

    def check(
        self,
        potential_eV: float,
        sums: NDArray[np.float64],
        atoms: OwnAtoms,
        box: Box,
        forces: NDArray[np.float64],
    ) -> None:
        """Compare the step with the last; the arguments are sums over all ranks, but for atoms.

        Raises
        ------
        SimulationError
            The step is not physical; on rank 0, while others wait for it to end them.
        """
        kinetic, n_moving, n_atoms, fingerprint = sums.tolist()
        if n_atoms == 0:
            return
        if self._atoms != (n_atoms, fingerprint):
            self._potential = None
        sample = self._sample(kinetic, potential_eV, int(n_atoms), int(n_moving))
        known, self._potential = self._potential, potential_eV
        self._atoms = n_atoms, fingerprint
        if self._repeated and (known is None or abs(potential_eV - known) > n_atoms * _SAME_EV):
            self._potential = None  # a trial move, or atoms that were displaced between runs
        elif self._in_dynamics:
            if known is None:
                self._watch.forget()
            fault = self._watch.fault(self._step, sample)
            if fault is not None:
                self._stop(fault, atoms, box, forces)
        else:
            self._watch.begin(self._step, sample)

    def failed(self, error: MDGIEError, atoms: OwnAtoms, box: Box) -> MDGIEError:
        """Return what to raise for an error in the forces of own atoms, which dynamics keeps."""
        if not self._in_dynamics:
            return error
        own = self._own(atoms, np.zeros_like(atoms.positions))
        text = f"{error}; {self._save(own, box)}"
        if self._communicator is not None:
            text += f" (the atoms of rank {self._communicator.rank} alone)"
        return SimulationError(text, **error.data)

    def _sample(self, kinetic: float, potential: float, n_atoms: int, n_moving: int) -> Sample:
        mean = potential
        if self._in_dynamics and self._potential is not None:
            # Velocities are those of the half step in between.
            mean = 0.5 * (self._potential + potential)
        return Sample(kinetic, kinetic + mean, potential, n_atoms, n_moving)

    def _stop(self, fault: str, atoms: OwnAtoms, box: Box, forces: NDArray[np.float64]) -> None:
        everything = self._own(atoms, forces)
        if self._communicator is not None:
            parts: Any = self._communicator.gather(everything)
            if parts is None:
                self._communicator.Barrier()  # rank 0 does not come; it ends all ranks
                return
            everything = _Atoms(*map(np.concatenate, zip(*parts, strict=True)))
            order = np.argsort(everything.ids)
            everything = _Atoms(*(column[order] for column in everything))  # type: ignore[arg-type]
        extremes, ids = name_extremes(
            everything.velocities, everything.masses, everything.forces, everything.ids
        )
        raise SimulationError(
            f"{fault}; of LAMMPS's ids, {extremes}: {REMEDY}; {self._save(everything, box)}",
            atoms=ids,
        )

    def _save(self, atoms: _Atoms, box: Box) -> str:
        numbers = np.array(self._settings.numbers(), np.int64)[atoms.types - 1]

        def write(path: Path) -> None:
            structure = Structure(
                numbers, atoms.positions, box.cell, box.pbc, atoms.velocities, atoms.masses
            )
            write_structure(path, structure)

        return save_frame(self._frame, write)

    def _own(self, atoms: OwnAtoms, forces: NDArray[np.float64]) -> _Atoms:
        n_own = len(atoms.ids)
        velocities = self._velocity_unit * self._api.atoms("v", n_own)[atoms.order]
        masses = self._masses(n_own)[atoms.order]
        return _Atoms(atoms.ids, atoms.types, atoms.positions, velocities, masses, forces)

    def _masses(self, n_own: int) -> NDArray[np.float64]:
        """Masses (n_own,) in amu, in LAMMPS's order."""
        masses = self._api.atoms("rmass", n_own)
        if len(masses) == n_own:
            return masses
        by_type: NDArray[np.float64] = self._api.per_type("mass")
        found: NDArray[np.float64] = by_type[self._api.atoms("type", n_own) - 1]
        return found
