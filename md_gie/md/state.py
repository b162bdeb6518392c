"""State of a run and what is read off it: kinetic energy, pressure tensor, first velocities."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from md_gie.engine.base import Evaluation
from md_gie.md import random
from md_gie.units import AMU_A2_FS2_EV, BOLTZMANN_EV_K

Evaluate: TypeAlias = Callable[[Tensor, Tensor], Evaluation]
"""Positions (N, 3) and cell (3, 3) in Å to an Evaluation; a step calls it once."""


class MDState(NamedTuple):
    """Everything that a step changes, float64 on one device.

    Attributes
    ----------
    step : int
        Steps made since the run began.
    positions : (N, 3), Å
        Unwrapped: atoms that leave the cell keep their coordinates.
    velocities : (N, 3), Å/fs
    masses : (N,), amu
    cell : (3, 3), Å
        Lattice vectors in rows.
    energy : (), eV
    forces : (N, 3), eV/Å
    virial : (3, 3), eV
        These three belong to ``positions``.
    bath_energy : (), eV
        Energy given to the thermostat since the run began.
    """

    step: int
    positions: Tensor
    velocities: Tensor
    masses: Tensor
    cell: Tensor
    energy: Tensor
    forces: Tensor
    virial: Tensor
    bath_energy: Tensor

    @classmethod
    def start(
        cls, positions: Tensor, velocities: Tensor, masses: Tensor, cell: Tensor, evaluate: Evaluate
    ) -> "MDState":
        """Return the state of step 0, with energy and forces from ``evaluate``."""
        result = evaluate(positions, cell)
        bath = torch.zeros((), dtype=torch.float64, device=positions.device)
        return cls(
            0,
            positions,
            velocities,
            masses,
            cell,
            result.energy,
            result.forces,
            result.virial,
            bath,
        )


def kinetic_energy(state: MDState) -> Tensor:
    """Sum of m v²/2, () float64, eV."""
    return kinetic_energy_of(state.velocities, state.masses)


def kinetic_energy_of(velocities: Tensor, masses: Tensor) -> Tensor:
    """Sum of m v²/2 for velocities (N, 3) in Å/fs and masses (N,) in amu; () float64, eV."""
    return 0.5 * AMU_A2_FS2_EV * (masses[:, None] * velocities.square()).sum()


def kinetic_temperature(state: MDState, degrees_of_freedom: int) -> Tensor:
    """Kinetic temperature, () float64, K, from the energy that ``degrees_of_freedom`` share.

    With 3 N - 3 degrees of freedom the motion of the centre of mass is a constant and not heat,
    so its energy is left out.
    """
    kinetic = kinetic_energy(state)
    if degrees_of_freedom == 3 * len(state.masses) - 3:
        momentum = (state.masses[:, None] * state.velocities).sum(0)
        kinetic = kinetic - 0.5 * AMU_A2_FS2_EV * momentum.square().sum() / state.masses.sum()
    return 2.0 * kinetic / (degrees_of_freedom * BOLTZMANN_EV_K)


def volume(cell: Tensor) -> Tensor:
    """Volume of a cell (3, 3), () float64, Å³."""
    determinant: Tensor = torch.linalg.det(cell)
    return determinant.abs()


def virial_stress(state: MDState) -> Tensor:
    """Cauchy stress of the potential alone, (3, 3) float64, eV/Å³, positive under tension.

    As calculators report it: the kinetic part is not in it.
    """
    return -state.virial / volume(state.cell)


def pressure(state: MDState) -> Tensor:
    r"""Pressure with its kinetic part, () float64, eV/Å³, for a cell that is periodic throughout.

    .. math:: P = \frac{1}{3V} \Bigl(\operatorname{tr} W + \sum_i m_i v_i^2\Bigr)

    Reference: Allen and Tildesley, Computer Simulation of Liquids, 2nd ed. (2017), section 2.7.
    """
    return (state.virial.trace() + 2.0 * kinetic_energy(state)) / (3.0 * volume(state.cell))


def maxwell_boltzmann(masses: Tensor, temperature_K: float, seed: int) -> Tensor:
    """Velocities (N, 3) in Å/fs, drawn at a temperature, with zero total momentum.

    Each component is normal with variance ``kT / m``; the velocity of the centre of mass is then
    taken away, so that 3 N - 3 degrees of freedom are at ``temperature_K`` on average. A single
    atom keeps its velocity.

    Parameters
    ----------
    masses : (N,) float64, amu
    temperature_K : float
    seed : int
    """
    noise = random.normals(seed, range(1), len(masses), masses.device, stream=random.VELOCITIES)[0]
    scale = torch.sqrt(BOLTZMANN_EV_K * temperature_K / (AMU_A2_FS2_EV * masses))
    velocities = scale[:, None] * noise
    if len(masses) == 1:
        return velocities
    return velocities - (masses[:, None] * velocities).sum(0) / masses.sum()
