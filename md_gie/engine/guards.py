"""Guards of dynamics, the same in every driver: what a step may change, and what is kept if not."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from md_gie.units import AMU_A2_FS2_EV, BOLTZMANN_EV_K

REMEDY = "take a shorter timestep or another starting structure"

_N_NAMED = 3


@dataclass(frozen=True)
class Limits:
    """What a step of sound dynamics stays below; infinity allows everything.

    Parameters
    ----------
    max_temperature_K : float
    max_temperature_jump_K : float
        From one step to the next.
    max_energy_jump_eV : float
        From one step to the next, by atom.
    """

    max_temperature_K: float = 10000.0
    max_temperature_jump_K: float = 5000.0
    max_energy_jump_eV: float = 0.1

    def fault(
        self, now_K: float, before_K: float | None, changes_eV: Mapping[str, float], table: str = ""
    ) -> str | None:
        """Tell what is wrong with a step.

        Parameters
        ----------
        now_K, before_K : float
            Temperature after this step and the last; None if there is no last one to compare with.
        changes_eV : mapping of str to float
            By name, energies of which sound dynamics changes at least one by little: their changes
            in this step, by atom. The smallest counts.
        table : str
            What precedes the names of the limits where they are set.

        Returns
        -------
        str or None
            A clause with the limit's name, or None if nothing is wrong.
        """
        # Written so that what is not a number fails.
        if not now_K <= self.max_temperature_K:
            limit = f"{table}max_temperature_K = {self.max_temperature_K:g}"
            return f"the temperature is {now_K:.0f} K, above {limit}"
        if before_K is None:
            return None
        if not abs(now_K - before_K) <= self.max_temperature_jump_K:
            limit = f"{table}max_temperature_jump_K = {self.max_temperature_jump_K:g}"
            return (
                f"the temperature went from {before_K:.0f} to {now_K:.0f} K, by more than {limit}"
            )
        name = min(changes_eV, key=lambda name: abs(changes_eV[name]))
        if not abs(changes_eV[name]) <= self.max_energy_jump_eV:
            limit = f"{table}max_energy_jump_eV = {self.max_energy_jump_eV:g}"
            return f"the {name} energy changed by {changes_eV[name]:.3g} eV/atom, more than {limit}"
        return None


class Sample(NamedTuple):
    """What a driver sees of a step, without what its baths have taken.

    Attributes
    ----------
    kinetic_eV, total_eV, potential_eV : float
        The total is that of one time, also where velocities are known at half steps.
    n_atoms, n_moving : int
        Atoms, and those that do not rest.
    """

    kinetic_eV: float
    total_eV: float
    potential_eV: float
    n_atoms: int
    n_moving: int

    @property
    def temperature_K(self) -> float:
        """Kinetic temperature, from three degrees of freedom of each atom that moves."""
        return 2.0 * self.kinetic_eV / (3.0 * max(1, self.n_moving) * BOLTZMANN_EV_K)


class StepWatch:
    """Compares each step with the one before, where nothing is known of baths.

    A bath changes the total energy and not the potential energy, and motion the potential energy
    and not the total; where both jump, the step has gone wrong.

    Parameters
    ----------
    limits : Limits
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._step = 0
        self._before: Sample | None = None

    def forget(self) -> None:
        """Compare the next step with nothing."""
        self._before = None

    def begin(self, step: int, sample: Sample) -> None:
        """Take a state from which steps are made, whatever it is."""
        self._step, self._before = step, sample

    def fault(self, step: int, sample: Sample) -> str | None:
        """Tell what is wrong with a step; steps that do not follow on the last are not compared."""
        before = self._before if step == self._step + 1 else None
        self.begin(step, sample)
        changes = {}
        if before is not None:
            changes = {
                "total": (sample.total_eV - before.total_eV) / sample.n_atoms,
                "potential": (sample.potential_eV - before.potential_eV) / sample.n_atoms,
            }
        before_K = None if before is None else before.temperature_K
        return self._limits.fault(sample.temperature_K, before_K, changes)


def name_extremes(
    velocities: NDArray[np.float64],
    masses: NDArray[np.float64],
    forces: NDArray[np.float64],
    ids: NDArray[np.int64] | None = None,
) -> tuple[str, list[int]]:
    """Name the atoms of which a failure is likely to have come.

    Parameters
    ----------
    velocities : (N, 3), Å/fs
    masses : (N,), amu
    forces : (N, 3), eV/Å
    ids : (N,), optional
        What the atoms are called, if not by their places.

    Returns
    -------
    (str, list of int)
        Two clauses, on kinetic energies and on forces; and the atoms of the first.
    """
    names = np.arange(len(masses)) if ids is None else ids
    energies = 0.5 * AMU_A2_FS2_EV * masses * np.square(velocities).sum(1)
    strengths = np.linalg.norm(forces, axis=1)
    hottest, pulled = (
        np.argsort(-values, kind="stable")[:_N_NAMED] for values in (energies, strengths)
    )
    hot = ", ".join(f"{names[i]} ({energies[i]:.3g} eV)" for i in hottest)
    strong = ", ".join(f"{names[i]} ({strengths[i]:.3g} eV/Å)" for i in pulled)
    text = f"the fastest atoms are {hot}, and the largest forces are on {strong}"
    return text, [int(names[i]) for i in hottest]


def save_frame(path: Path, write: Callable[[Path], object]) -> str:
    """Write the frame that a guard has stopped at, under a name that is not taken.

    Parameters
    ----------
    path : Path
        Its name, which gets a number if there is such a file.
    write : callable
        Writes the frame to the path that it is given.

    Returns
    -------
    str
        A clause that tells where the frame is, or why it is not saved.
    """
    # The failure must be told, whatever becomes of its frame.
    try:
        target = _claim(path)
    except OSError as error:
        return f"the frame is not saved ({error})"
    try:
        write(target)
    except (OSError, ValueError) as error:
        target.unlink(missing_ok=True)
        return f"the frame is not saved ({error})"
    return f"the frame is in {target}"


def _claim(path: Path) -> Path:
    target = path
    for number in itertools.count(1):
        try:
            target.touch(exist_ok=False)
            break
        except FileExistsError:
            target = path.with_name(f"{path.stem}.{number}{path.suffix}")
    return target
