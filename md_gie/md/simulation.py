"""The loop: integrator, guards, observers; and what a run took."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from md_gie.engine.guards import REMEDY, name_extremes
from md_gie.errors import MDGIEError, SimulationError
from md_gie.md.config import GuardsTable
from md_gie.md.forces import GuardedForces
from md_gie.md.integrators import Integrator
from md_gie.md.observers import Meter, Observer, Vitals
from md_gie.md.state import MDState
from md_gie.md.timing import Clock

Report = Callable[[MDState, Vitals], None]


@dataclass(frozen=True)
class RunSummary:
    """What a run took.

    Attributes
    ----------
    n_steps : int
        Steps made in this process.
    n_atoms, n_edges : int
        Edges are those of the last step.
    n_builds : int
        Neighbour lists built in this process.
    milliseconds : dict of str to float
        Mean of a step by part: ``neighbours``, ``model``, ``integration``, ``writing``.
    timestep_fs : float
    peak_bytes : dict of str to int
    """

    n_steps: int
    n_atoms: int
    n_edges: int
    n_builds: int
    milliseconds: dict[str, float]
    timestep_fs: float
    peak_bytes: dict[str, int]

    @property
    def ns_per_day(self) -> float:
        """Simulated time in a day at this speed, ns."""
        step_ms = sum(self.milliseconds.values())
        return self.timestep_fs * 86.4 / step_ms if step_ms else 0.0

    def facts(self) -> dict[str, Any]:
        """All of it as JSON values, with the speed."""
        return dataclasses.asdict(self) | {"ns_per_day": self.ns_per_day}

    def line(self) -> str:
        """All of it in one line."""
        parts = ", ".join(f"{name} {value:.2f}" for name, value in self.milliseconds.items())
        memory = ", ".join(
            f"{name} {size / 2**20:.0f} MiB" for name, size in self.peak_bytes.items()
        )
        return (
            f"{self.n_steps} steps of {self.n_atoms} atoms, {self.n_edges} edges: "
            f"{sum(self.milliseconds.values()):.2f} ms/step ({parts}), "
            f"{self.ns_per_day:.3f} ns/day, {self.n_builds} neighbour lists built, "
            f"peak memory {memory or 'unknown'}"
        )


class Simulation:
    """Steps a state, shows it to observers, and stops when it is no longer physical.

    Parameters
    ----------
    state : MDState
    integrator : Integrator
    forces : GuardedForces
    meter : Meter
    observers : sequence of Observer
        Called in this order.
    clock : Clock
        The one that ``forces`` writes to.
    guards : GuardsTable
        Which temperature, and which jumps of temperature and conserved energy, stop the run.

    Attributes
    ----------
    state : MDState
        After a failure, the last state that was sound.
    failed : MDState or None
        The state that stopped the run.
    """

    def __init__(
        self,
        state: MDState,
        integrator: Integrator,
        forces: GuardedForces,
        meter: Meter,
        observers: Sequence[Observer],
        clock: Clock,
        guards: GuardsTable,
    ) -> None:
        self.state = state
        self.failed: MDState | None = None
        self._integrator = integrator
        self._forces = forces
        self._meter = meter
        self._observers = observers
        self._clock = clock
        self._guards = guards

    def run(self, last_step: int, report: Report, stop: Callable[[], object]) -> None:
        """Go on until a step number.

        Parameters
        ----------
        last_step : int
        report : callable
            Called after each step with its state, temperature and conserved energy.
        stop : callable
            Asked after each step; true ends the run there.

        Raises
        ------
        SimulationError
            Naming the step and the atoms; ``failed`` is the offending state.
        """
        before = self._meter.vitals(self.state)
        while self.state.step < last_step and not stop():
            with self._clock.section("step"):
                state = self._advance()
                vitals = self._meter.vitals(state)
            self._check(state, vitals, before)
            self.state, before = state, vitals
            self.observe()
            report(state, vitals)

    def observe(self) -> None:
        """Show the state to the observers whose turn it is."""
        with self._clock.section("writing"):
            for observer in self._observers:
                if self.state.step % observer.every == 0:
                    observer.observe(self.state)

    def milliseconds(self, n_steps: int) -> dict[str, float]:
        """Mean time of a step by part."""
        spent = self._clock.seconds
        names = ("neighbours", "model")
        parts = {name: spent.get(name, 0.0) for name in names}
        parts["integration"] = spent.get("step", 0.0) - sum(parts.values())
        parts["writing"] = spent.get("writing", 0.0)
        return {name: 1000.0 * value / max(1, n_steps) for name, value in parts.items()}

    def _advance(self) -> MDState:
        try:
            return self._integrator.step(self.state, self._forces)
        except MDGIEError as error:
            step = self.state.step + 1
            if self._forces.last_positions is not None:
                assert self._forces.last_cell is not None
                self.failed = self.state._replace(
                    step=step,
                    positions=self._forces.last_positions,
                    cell=self._forces.last_cell,
                )
            data = {**error.data, "step": step}
            raise SimulationError(f"step {step}: {error}", **data) from error

    def _check(self, state: MDState, now: Vitals, before: Vitals) -> None:
        gain = (now.conserved_eV - before.conserved_eV) / len(state.masses)
        fault = self._guards.fault(
            now.temperature_K, before.temperature_K, {"conserved": gain}, "guards."
        )
        if fault is None:
            return
        self.failed = state
        extremes, atoms = name_extremes(
            *(array.cpu().numpy() for array in (state.velocities, state.masses, state.forces))
        )
        raise SimulationError(
            f"step {state.step}: {fault}; {extremes}: {REMEDY}",
            step=state.step,
            temperature_K=now.temperature_K,
            atoms=atoms,
        )
