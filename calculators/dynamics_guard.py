"""DynamicsGuard: stops ASE's molecular dynamics where it is no longer physical."""

import os
from pathlib import Path
from types import TracebackType
from typing import Self

import ase.io
import numpy as np
from ase import units
from ase.md.md import MolecularDynamics

from md_gie.engine.guards import REMEDY, Limits, Sample, StepWatch, name_extremes, save_frame
from md_gie.errors import SimulationError, StructureError


class DynamicsGuard:
    """Watches each step of an ASE integrator, with any calculator, inside a ``with`` block.

    What ``md-gie run`` watches: the temperature, its jumps and those of the energy from step to
    step. These, and what the calculator refuses (atoms on top of each other, numbers that are not
    finite), end the run with an error that names the atoms, and the frame is kept.

    Parameters
    ----------
    dynamics : ase.md.md.MolecularDynamics
        The integrator.
    frame : str or path
        Extended XYZ file for the frame at which a run is stopped; it gets a number if there is
        such a file.
    max_temperature_K : float
        Temperatures count three degrees of freedom of each atom that moves.
    max_temperature_jump_K : float
        From one step to the next.
    max_energy_jump_eV : float
        From one step to the next, by atom, of total and potential energy both: baths change the
        former, motion the latter.

    Raises
    ------
    SimulationError
        Out of the ``with`` block; ``data`` has ``step`` and ``atoms``.
    StructureError
        At the beginning of the block, if the calculator refuses the first configuration.
    TypeError
        ``dynamics`` is no molecular dynamics.

    Notes
    -----
    Each block begins anew. Where atoms are displaced between two runs, give each a block.

    Examples
    --------
    >>> from ase import units
    >>> from ase.build import molecule
    >>> from ase.md.verlet import VelocityVerlet
    >>> from md_gie import DynamicsGuard, GIECalculator
    >>> atoms = molecule("H2O", vacuum=5.0, pbc=True)
    >>> atoms.calc = GIECalculator("water-s")
    >>> with VelocityVerlet(atoms, 0.5 * units.fs) as dynamics, DynamicsGuard(dynamics):
    ...     finished = dynamics.run(10)
    """

    def __init__(
        self,
        dynamics: MolecularDynamics,
        frame: str | os.PathLike[str] = "failed.extxyz",
        *,
        max_temperature_K: float = Limits.max_temperature_K,
        max_temperature_jump_K: float = Limits.max_temperature_jump_K,
        max_energy_jump_eV: float = Limits.max_energy_jump_eV,
    ) -> None:
        if not isinstance(dynamics, MolecularDynamics):
            raise TypeError(
                f"{type(dynamics).__name__} is no molecular dynamics of ASE, whose steps could be "
                "compared; guard an integrator, such as VelocityVerlet"
            )
        self._dynamics = dynamics
        self._frame = Path(frame)
        limits = Limits(max_temperature_K, max_temperature_jump_K, max_energy_jump_eV)
        self._watch = StepWatch(limits)
        self._raised: BaseException | None = None

    def __enter__(self) -> Self:
        self._watch.forget()
        self._check()  # costs no evaluation: the calculator has it for the first step
        self._dynamics.attach(self._check)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        observers = self._dynamics.observers
        self._dynamics.observers = [entry for entry in observers if entry[0] != self._check]
        if isinstance(error, (StructureError, SimulationError)) and error is not self._raised:
            # The calculator's; integrators move the atoms first.
            step = self._dynamics.nsteps + 1
            data = {**error.data, "step": step}
            raise SimulationError(f"step {step}: {error}; {self._save()}", **data) from error

    def _check(self) -> None:
        atoms, step = self._dynamics.atoms, self._dynamics.nsteps
        kinetic, potential = atoms.get_kinetic_energy(), atoms.get_potential_energy()
        n_moving = np.count_nonzero(atoms.get_momenta().any(axis=1))
        sample = Sample(kinetic, kinetic + potential, potential, len(atoms), int(n_moving))
        fault = self._watch.fault(step, sample)
        if fault is None:
            return
        extremes, names = name_extremes(
            atoms.get_velocities() * units.fs,
            atoms.get_masses(),
            atoms.get_forces(apply_constraint=False),
        )
        self._raised = SimulationError(
            f"step {step}: {fault}; {extremes}: {REMEDY}; {self._save()}", step=step, atoms=names
        )
        raise self._raised

    def _save(self) -> str:
        atoms = self._dynamics.atoms
        return save_frame(self._frame, lambda path: ase.io.write(path, atoms, format="extxyz"))
