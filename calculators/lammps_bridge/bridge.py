"""The callback of a ``fix external``: from LAMMPS's atoms to its forces, energy and virial."""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from md_gie.calculators.lammps_bridge import checks
from md_gie.calculators.lammps_bridge.api import CALLBACK, LammpsAPI
from md_gie.calculators.lammps_bridge.atoms import OwnAtoms, read_box
from md_gie.calculators.lammps_bridge.forces import ForceProvider, SerialForces, Shares
from md_gie.calculators.lammps_bridge.guard import LammpsGuard
from md_gie.calculators.lammps_bridge.parallel import ParallelForces
from md_gie.calculators.lammps_bridge.settings import Settings
from md_gie.engine import Engine, load_potential
from md_gie.engine.base import SharedEngine
from md_gie.errors import ConfigError, SimulationError, StructureError

_OWN_COMPUTES = {"thermo_temp", "thermo_press", "thermo_pe"}

OnError = Callable[[BaseException, int], None]
"""What becomes of an error in a force call at a step."""


class Bridge:
    """A potential behind a ``fix ID all external pf/callback 1 1``.

    Parameters
    ----------
    api : LammpsAPI
    fix : str
        ID of the fix.
    settings : Settings
    communicator : mpi4py.MPI.Comm or None
        Of all ranks; None for one.
    on_error : callable
        Gets an error in a force call, and the step.
    before_step : callable, optional
        Called before each force call; may raise.

    Attributes
    ----------
    engine : Engine
        The potential.
    seconds : float
        Time in force calls so far, and ``model_seconds`` of it with neighbors and model.
    n_calls : int
        Force calls so far.

    Raises
    ------
    ConfigError, StructureError
        A script for which numbers would be wrong; see :mod:`.checks`.
    FileNotFoundError, CheckpointError, ValueError
        As :func:`md_gie.load_potential`.
    """

    def __init__(
        self,
        api: LammpsAPI,
        fix: str,
        settings: Settings,
        communicator: Any,
        on_error: OnError,
        before_step: Callable[[], None] | None = None,
    ) -> None:
        self._api, self.fix, self._settings = api, fix, settings
        self._communicator = communicator
        self._scale = checks.check_units(api)
        checks.check_elements(api, settings)
        checks.check_fix(api, fix, communicator)
        checks.check_integrator(api)
        self.engine = _load_engine(settings, communicator)
        self._forces = self._provider()
        self._atoms = OwnAtoms(api)
        self._guard = LammpsGuard(api, fix, settings, communicator)
        self._on_error, self._before_step = on_error, before_step
        self._warned = False
        self.seconds = self.model_seconds = 0.0
        self.n_calls = 0
        self._callback = CALLBACK(self._on_call)
        api.set_callback(fix, self._callback)

    def _provider(self) -> ForceProvider:
        if self._communicator is None:
            return SerialForces(self.engine, self._settings)
        if not isinstance(self.engine, SharedEngine):
            raise ConfigError(
                f"the engine of {self.engine.name} cannot share a configuration between the "
                f"{self._communicator.size} ranks that LAMMPS runs on; run on one rank"
            )
        return ParallelForces(self.engine, self._settings, self._communicator)

    def _on_call(
        self, _: int | None, step: int, n_own: int, __: Any, ___: Any, forces: int | None
    ) -> None:
        try:
            start = time.perf_counter()
            shares = self.evaluate(n_own, step)
            self._deliver(self._api.rows(forces, n_own, writable=True), shares)
            self.seconds += time.perf_counter() - start
        except BaseException as error:  # noqa: BLE001 - LAMMPS would go on with stale forces
            self._api.rows(forces, n_own, writable=True)[:] = np.nan
            self._on_error(error, step)

    def evaluate(self, n_own: int, step: int) -> Shares:
        """Evaluate LAMMPS's present state and publish energy and virial, not the forces."""
        if self._before_step is not None:
            self._before_step()
        checks.check_integrator(self._api)
        self._warn_once()
        self._guard.begin(step)
        box = read_box(self._api)
        changed = self._atoms.read(n_own, box)
        start = time.perf_counter()
        try:
            shares = self._forces.compute(self._atoms, box, changed, self._wants_virials())
        except (StructureError, SimulationError) as error:
            raise self._guard.failed(error, self._atoms, box) from error
        self.model_seconds += time.perf_counter() - start
        self.n_calls += 1
        energy, sums = self._publish(shares, self._guard.sums(self._atoms, changed))
        self._guard.check(energy, sums, self._atoms, box, shares.forces)
        return shares

    def _deliver(self, rows: NDArray[np.float64], shares: Shares) -> None:
        if len(rows):
            rows[self._atoms.order] = shares.forces * self._scale

    def add_forces(self, rows: NDArray[np.float64], shares: Shares) -> None:
        """Add the forces to rows (n_own, 3) in LAMMPS's order."""
        if len(rows):
            rows[self._atoms.order] += shares.forces * self._scale

    def _publish(
        self, shares: Shares, guarded: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64]]:
        """Set energy and virial: the sums over all ranks on every rank, shares of own atoms.

        Returns the energy in eV, and the sums of the guard's numbers: all in one message.
        """
        totals = np.array([shares.energy, *shares.virial, *guarded])
        if self._communicator is not None:
            mine, totals = totals, np.empty_like(totals)
            self._communicator.Allreduce(mine, totals)
        energy, guarded = float(totals[0]), totals[7:]
        self._api.set_totals(self.fix, energy * self._scale, totals[1:7] * self._scale)
        virials = shares.virials
        if virials is not None:
            virials = self._atoms.to_lammps(virials * self._scale)
        self._api.set_shares(
            self.fix, self._atoms.to_lammps(shares.energies * self._scale), virials
        )
        return energy, guarded

    def _wants_virials(self) -> bool:
        """Whether a compute could ask for per-atom virials; LAMMPS does not say which does."""
        return not _OWN_COMPUTES.issuperset(self._api.names("compute"))

    def _warn_once(self) -> None:
        # Masses may be set after the hook, so they are looked at when forces are first needed.
        if self._warned:
            return
        self._warned = True
        if self._communicator is None or self._communicator.rank == 0:
            for line in checks.contradicting_masses(self._api, self._settings):
                sys.stderr.write(f"md-gie: warning: {line}; elements are used as given\n")


def _load_engine(settings: Settings, communicator: Any) -> Engine:
    device = settings.device
    if device == "auto" and communicator is not None and torch.cuda.is_available():
        from mpi4py import MPI

        local = communicator.Split_type(MPI.COMM_TYPE_SHARED)
        device = f"cuda:{local.rank % torch.cuda.device_count()}"
        local.Free()
    return load_potential(
        settings.model,
        device=device,
        dtype=settings.dtype,
        kernels=settings.kernels,
        branch=settings.branch,
    )
