"""Integrators: one step takes a state and returns the next; nothing is changed in place."""

import math
from typing import Protocol

import torch
from torch import Tensor

from md_gie.md import random
from md_gie.md.state import Evaluate, MDState, kinetic_energy_of
from md_gie.units import AMU_A2_FS2_EV, BOLTZMANN_EV_K

_NOISE_BLOCK = 2**15  # normal triples drawn at once, so that a GPU gets few launches a step


class Integrator(Protocol):
    """What the loop needs of an integrator; two calls with equal states return equal bits."""

    timestep_fs: float

    def step(self, state: MDState, evaluate: Evaluate) -> MDState:
        """Return the state one timestep later."""
        ...

    def degrees_of_freedom(self, n_atoms: int) -> int:
        """Return how many degrees of freedom share the kinetic energy."""
        ...


class VelocityVerlet:
    r"""Velocity Verlet at constant energy.

    ===========================================  ==================================
    equation                                     variable
    ===========================================  ==================================
    :math:`\Delta t`                             ``timestep_fs``, fs
    :math:`x, v, m`                              ``positions, velocities, masses``
    :math:`a = F(x) / m`                         ``forces / masses``, in Å/fs²
    :math:`v \leftarrow v + a(x) \Delta t / 2`   ``_kick``
    :math:`x \leftarrow x + v \Delta t`          in :meth:`step`
    :math:`v \leftarrow v + a(x) \Delta t / 2`   ``_kick`` with the new forces
    ===========================================  ==================================

    Parameters
    ----------
    timestep_fs : float

    References
    ----------
    Swope, Andersen, Berens and Wilson, J. Chem. Phys. 76, 637 (1982), doi:10.1063/1.442716.
    """

    def __init__(self, timestep_fs: float) -> None:
        self.timestep_fs = timestep_fs

    def step(self, state: MDState, evaluate: Evaluate) -> MDState:
        """Return the state one timestep later."""
        half = 0.5 * self.timestep_fs
        velocities = _kick(state.velocities, state.forces, state.masses, half)
        positions = state.positions + self.timestep_fs * velocities
        result = evaluate(positions, state.cell)
        return state._replace(
            step=state.step + 1,
            positions=positions,
            velocities=_kick(velocities, result.forces, state.masses, half),
            energy=result.energy,
            forces=result.forces,
            virial=result.virial,
        )

    def degrees_of_freedom(self, n_atoms: int) -> int:
        """3 N - 3, as the total momentum is a constant; 3 for a single atom."""
        return max(3, 3 * n_atoms - 3)


class LangevinBAOAB:
    r"""Langevin dynamics at constant temperature, split as B A O A B.

    =====================================================  =======================================
    equation                                               variable
    =====================================================  =======================================
    :math:`\Delta t`                                       ``timestep_fs``, fs
    :math:`T, \gamma`                                      ``temperature_K``, ``friction_per_ps``
    B: :math:`v \leftarrow v + a(x) \Delta t / 2`          ``_kick``
    A: :math:`x \leftarrow x + v \Delta t / 2`             in :meth:`step`
    O: :math:`v \leftarrow c_1 v + c_2 \sqrt{kT/m}\,\xi`   ``_fluctuate``
    :math:`c_1 = e^{-\gamma \Delta t}`                     ``_decay``
    :math:`c_2 = \sqrt{1 - c_1^2}`                         ``_scatter``
    :math:`\xi`                                            ``_noise``, from (seed, step, atom)
    =====================================================  =======================================

    Energy that O takes away is added to ``bath_energy``, so that potential + kinetic + bath energy
    is conserved up to the discretisation of the Hamiltonian part.

    Parameters
    ----------
    timestep_fs : float
    temperature_K : float
    friction_per_ps : float
    seed : int

    References
    ----------
    Leimkuhler and Matthews, Appl. Math. Res. Express 2013, 34 (2013), doi:10.1093/amrx/abs010.
    Bookkeeping of the bath: Bussi and Parrinello, Phys. Rev. E 75, 056707 (2007),
    doi:10.1103/PhysRevE.75.056707.
    """

    def __init__(
        self, timestep_fs: float, temperature_K: float, friction_per_ps: float, seed: int
    ) -> None:
        self.timestep_fs = timestep_fs
        self.temperature_K = temperature_K
        self.friction_per_ps = friction_per_ps
        self.seed = seed
        self._decay = math.exp(-friction_per_ps * 1e-3 * timestep_fs)
        # 1 - exp(-2x) without the cancellation that a small friction would bring.
        self._scatter = math.sqrt(-math.expm1(-2e-3 * friction_per_ps * timestep_fs))
        self._drawn = range(0)
        self._block = torch.empty(0)

    def step(self, state: MDState, evaluate: Evaluate) -> MDState:
        """Return the state one timestep later."""
        half = 0.5 * self.timestep_fs
        velocities = _kick(state.velocities, state.forces, state.masses, half)
        positions = state.positions + half * velocities
        before = kinetic_energy_of(velocities, state.masses)
        velocities = self._fluctuate(velocities, state.masses, state.step)
        given = before - kinetic_energy_of(velocities, state.masses)
        positions = positions + half * velocities
        result = evaluate(positions, state.cell)
        return state._replace(
            step=state.step + 1,
            positions=positions,
            velocities=_kick(velocities, result.forces, state.masses, half),
            energy=result.energy,
            forces=result.forces,
            virial=result.virial,
            bath_energy=state.bath_energy + given,
        )

    def degrees_of_freedom(self, n_atoms: int) -> int:
        """3 N: the thermostat moves the centre of mass too."""
        return 3 * n_atoms

    def _fluctuate(self, velocities: Tensor, masses: Tensor, step: int) -> Tensor:
        spread = torch.sqrt(BOLTZMANN_EV_K * self.temperature_K / (AMU_A2_FS2_EV * masses))
        noise = self._noise(step, len(masses), velocities.device)
        return self._decay * velocities + self._scatter * spread[:, None] * noise

    def _noise(self, step: int, n_atoms: int, device: torch.device) -> Tensor:
        held = self._block.shape[1:2] == (n_atoms,) and self._block.device == device
        if not held or step not in self._drawn:
            count = max(1, min(64, _NOISE_BLOCK // n_atoms))
            self._drawn = range(step, step + count)
            self._block = random.normals(
                self.seed, self._drawn, n_atoms, device, stream=random.THERMOSTAT
            )
        return self._block[step - self._drawn.start]


def _kick(velocities: Tensor, forces: Tensor, masses: Tensor, time_fs: float) -> Tensor:
    return velocities + (time_fs / AMU_A2_FS2_EV) * forces / masses[:, None]
