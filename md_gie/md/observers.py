"""Observers: what looks at the state every so many steps; each has its own cadence."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from md_gie.md import state as properties
from md_gie.md.state import MDState
from md_gie.trajectory import Frame, H5MDWriter, Observable
from md_gie.units import EV_A3_GPA

Write = Callable[[str], None]


class Observer(Protocol):
    """Called after each step whose number is a multiple of ``every``, step 0 included."""

    every: int

    def observe(self, state: MDState) -> None:
        """Look at a state; it must not be changed."""
        ...


class Meter:
    """Reads the quantities of a state that tables and trajectories show.

    Parameters
    ----------
    degrees_of_freedom : int
    timestep_fs : float
    periodic : bool
        Whether the cell is periodic along all vectors, so that there is a pressure.
    """

    def __init__(self, degrees_of_freedom: int, timestep_fs: float, *, periodic: bool) -> None:
        self._degrees_of_freedom = degrees_of_freedom
        self._timestep_fs = timestep_fs
        self._periodic = periodic

    @property
    def observables(self) -> tuple[Observable, ...]:
        """Names and units of what :meth:`read` returns."""
        always = (
            Observable("potential_energy", "eV"),
            Observable("kinetic_energy", "eV"),
            Observable("conserved_energy", "eV"),
            Observable("temperature", "K"),
        )
        if not self._periodic:
            return always
        return (
            *always,
            Observable("pressure", "GPa"),
            Observable("stress", "eV Angstrom-3", (3, 3)),
        )

    def time_fs(self, state: MDState) -> float:
        """Time since the run began."""
        return state.step * self._timestep_fs

    def temperature(self, state: MDState) -> float:
        """Kinetic temperature, K."""
        return properties.kinetic_temperature(state, self._degrees_of_freedom).item()

    def read(self, state: MDState) -> dict[str, float | NDArray[np.float64]]:
        """Every observable of a state.

        ``conserved_energy`` is potential + kinetic energy, plus what the thermostat has taken.
        ``pressure`` has its kinetic part and ``stress``, as calculators report it, has not.
        """
        kinetic = properties.kinetic_energy(state)
        values: dict[str, float | NDArray[np.float64]] = {
            "potential_energy": state.energy.item(),
            "kinetic_energy": kinetic.item(),
            "conserved_energy": (state.energy + kinetic + state.bath_energy).item(),
            "temperature": self.temperature(state),
        }
        if self._periodic:
            values["pressure"] = properties.pressure(state).item() * EV_A3_GPA
            values["stress"] = to_numpy(properties.virial_stress(state))
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
    """Appends frames to a trajectory.

    Parameters
    ----------
    writer : H5MDWriter
    meter : Meter
    every : int
    """

    def __init__(self, writer: H5MDWriter, meter: Meter, every: int) -> None:
        self.every = every
        self._writer = writer
        self._meter = meter

    def observe(self, state: MDState) -> None:
        """Append the frame of a state."""
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
