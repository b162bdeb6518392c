"""Observers: what looks at the state every so many steps; each has its own cadence."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from md_gie.md import state as properties
from md_gie.md.forces import GuardedForces
from md_gie.md.freedom import Freedom
from md_gie.md.state import MDState
from md_gie.trajectory import Frame, Observable
from md_gie.trajectory.formats import TrajectoryWriter
from md_gie.units import EV_A3_GPA

Write = Callable[[str], None]


class Observer(Protocol):
    """Called after each step whose number is a multiple of ``every``, step 0 included."""

    every: int

    def observe(self, state: MDState) -> None:
        """Look at a state; it must not be changed."""
        ...


OBSERVABLES = (
    Observable("potential_energy", "eV"),
    Observable("kinetic_energy", "eV"),
    Observable("conserved_energy", "eV"),
    Observable("temperature", "K"),
    Observable("closest_distance", "Angstrom"),
    Observable("neighbor_builds", "1"),
)
"""What every frame of a run's trajectory carries."""

PERIODIC_OBSERVABLES = (
    Observable("pressure", "GPa"),
    Observable("stress", "eV Angstrom-3", (3, 3)),
    Observable("volume", "Angstrom3"),
)
"""What it carries besides if the cell is periodic along all vectors."""


class Vitals(NamedTuple):
    """What tells after every step whether the state is still physical."""

    temperature_K: float
    conserved_eV: float


class Meter:
    """Reads the quantities of a state that tables and trajectories show.

    Parameters
    ----------
    freedom : Freedom
    timestep_fs : float
    forces : GuardedForces
        What evaluated the state.
    periodic : bool
        Whether the cell is periodic along all vectors, so that there is a pressure.
    """

    def __init__(
        self, freedom: Freedom, timestep_fs: float, forces: GuardedForces, *, periodic: bool
    ) -> None:
        self._freedom = freedom
        self._timestep_fs = timestep_fs
        self._forces = forces
        self._periodic = periodic

    @property
    def observables(self) -> tuple[Observable, ...]:
        """Names and units of what :meth:`read` returns."""
        return OBSERVABLES + (PERIODIC_OBSERVABLES if self._periodic else ())

    def time_fs(self, state: MDState) -> float:
        """Time since the run began."""
        return state.step * self._timestep_fs

    def vitals(self, state: MDState) -> Vitals:
        """Temperature and conserved energy, for which a GPU is waited for once."""
        temperature = properties.kinetic_temperature(state, self._freedom)
        both = torch.stack([temperature, properties.conserved_energy(state)])
        return Vitals(*both.tolist())

    def read(self, state: MDState) -> dict[str, float | NDArray[np.float64]]:
        """Every observable of a state that has just been evaluated.

        ``conserved_energy`` is potential + kinetic energy, plus what the baths have taken.
        ``pressure`` has its kinetic part and ``stress``, as calculators report it, has not.
        ``closest_distance`` is that of the closest pair, the cutoff if none is closer;
        ``neighbor_builds`` counts since the run began.
        """
        vitals = self.vitals(state)
        values: dict[str, float | NDArray[np.float64]] = {
            "potential_energy": state.energy.item(),
            "kinetic_energy": properties.kinetic_energy(state).item(),
            "conserved_energy": vitals.conserved_eV,
            "temperature": vitals.temperature_K,
            "closest_distance": self._forces.closest_A,
            "neighbor_builds": float(self._forces.cache.n_builds),
        }
        if self._periodic:
            values["pressure"] = properties.pressure(state).item() * EV_A3_GPA
            values["stress"] = to_numpy(properties.virial_stress(state))
            values["volume"] = properties.volume(state.cell).item()
        return values


class ThermoTable:
    """A line of numbers every so many steps.

    Parameters
    ----------
    meter : Meter
    every : int
    write : callable
        Takes one line of text.
    """

    def __init__(self, meter: Meter, every: int, write: Write) -> None:
        self.every = every
        self._meter = meter
        self._write = write
        self._headed = False

    def observe(self, state: MDState) -> None:
        """Write the line of a state, after the heading if it is the first."""
        values = self._meter.read(state)
        columns = [(name, head) for name, head in _COLUMNS.items() if name in values]
        if not self._headed:
            self._write(f"{'step':>9}{'time/ps':>11}" + "".join(f"{h:>14}" for _, h in columns))
            self._headed = True
        line = f"{state.step:>9}{self._meter.time_fs(state) / 1000:>11.4f}"
        for name, _ in columns:
            digits = 2 if name == "temperature" else 4
            line += f"{values[name]:>14.{digits}f}"
        self._write(line)


_COLUMNS = {
    "potential_energy": "E_pot/eV",
    "kinetic_energy": "E_kin/eV",
    "temperature": "T/K",
    "conserved_energy": "conserved/eV",
    "pressure": "P/GPa",
}


class TrajectoryObserver:
    """Appends to a trajectory what is due of a state.

    Parameters
    ----------
    writer : TrajectoryWriter
        It knows what is due when.
    meter : Meter
    """

    every = 1

    def __init__(self, writer: TrajectoryWriter, meter: Meter) -> None:
        self._writer = writer
        self._meter = meter

    def observe(self, state: MDState) -> None:
        """Append the frame of a state, or the parts of it that are due."""
        if self._writer.due(state.step):
            self._writer.append(frame_of(state, self._meter))


class RestartObserver:
    """Writes restart files.

    Parameters
    ----------
    save : callable
        Writes everything that the state's continuation needs.
    every : int
    """

    def __init__(self, save: Callable[[MDState], None], every: int) -> None:
        self.every = every
        self._save = save

    def observe(self, state: MDState) -> None:
        """Write the restart file of a state."""
        self._save(state)


def frame_of(state: MDState, meter: Meter) -> Frame:
    """Return a state as a frame of a trajectory."""
    return Frame(
        step=state.step,
        time_fs=meter.time_fs(state),
        cell=to_numpy(state.cell),
        positions=to_numpy(state.positions),
        velocities=to_numpy(state.velocities),
        forces=to_numpy(state.forces),
        observables=meter.read(state),
    )


def to_numpy(tensor: Tensor) -> NDArray[Any]:
    """Copy a tensor to host memory."""
    array: NDArray[Any] = tensor.detach().to("cpu", copy=True).numpy()
    return array
