"""State of a run and what is read off it: kinetic energy, temperature, pressure."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from md_gie.engine.base import Evaluation
from md_gie.md.freedom import Freedom, center_velocity
from md_gie.units import AMU_A2_FS2_EV, BOLTZMANN_EV_K

Evaluate: TypeAlias = Callable[[Tensor, Tensor], Evaluation]
"""Positions (N, 3) and cell (3, 3) in Å to an Evaluation; a step calls it once."""


class MDState(NamedTuple):
    """Everything that a step changes or needs, float64 on one device.

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
        What thermostat and barostat have taken since the run began: its sum with potential and
        kinetic energy is conserved.
    bath : (B,)
        Variables of the integrator's own, on the CPU.
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
    bath: Tensor

    @classmethod
    def start(
        cls, positions: Tensor, velocities: Tensor, masses: Tensor, cell: Tensor, evaluate: Evaluate
    ) -> "MDState":
        """Return the state of step 0, with energy and forces from ``evaluate``."""
        result = evaluate(positions, cell)
        return cls(
            step=0,
            positions=positions,
            velocities=velocities,
            masses=masses,
            cell=cell,
            energy=result.energy,
            forces=result.forces,
            virial=result.virial,
            bath_energy=torch.zeros((), dtype=torch.float64, device=positions.device),
            bath=torch.zeros(0, dtype=torch.float64),
        )


def kinetic_energy(state: MDState) -> Tensor:
    """Sum of m v²/2, () float64, eV."""
    return kinetic_energy_of(state.velocities, state.masses)


def kinetic_energy_of(velocities: Tensor, masses: Tensor) -> Tensor:
    """Sum of m v²/2 for velocities (N, 3) in Å/fs and masses (N,) in amu; () float64, eV."""
    return 0.5 * AMU_A2_FS2_EV * (masses[:, None] * velocities.square()).sum()


def kinetic_tensor(velocities: Tensor, masses: Tensor) -> Tensor:
    """Sum of m v v, (3, 3) float64, eV; its trace is twice the kinetic energy."""
    return AMU_A2_FS2_EV * (velocities.T @ (masses[:, None] * velocities))


def thermal_energy(state: MDState, freedom: Freedom) -> Tensor:
    """Kinetic energy without that of a conserved motion of the centre of mass, () float64, eV."""
    kinetic = kinetic_energy(state)
    if freedom.fixed_center:
        drift = center_velocity(state.velocities, state.masses)
        kinetic = kinetic - 0.5 * AMU_A2_FS2_EV * state.masses.sum() * drift.square().sum()
    return kinetic


def kinetic_temperature(state: MDState, freedom: Freedom) -> Tensor:
    """Kinetic temperature, () float64, K, from the energy that the degrees of freedom share."""
    return 2.0 * thermal_energy(state, freedom) / (freedom.count * BOLTZMANN_EV_K)


def conserved_energy(state: MDState) -> Tensor:
    """Potential + kinetic + bath energy, () float64, eV, that the dynamics leaves constant."""
    return state.energy + kinetic_energy(state) + state.bath_energy


def volume(cell: Tensor) -> Tensor:
    """Volume of a cell (3, 3), () float64, Å³."""
    first, second, third = cell
    return torch.dot(first, torch.linalg.cross(second, third)).abs()


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
