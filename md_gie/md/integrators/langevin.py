"""Constant temperature by friction and noise on every atom: Langevin dynamics."""

import math

import torch
from torch import Tensor

from md_gie.md import random
from md_gie.md.freedom import Freedom, center_velocity
from md_gie.md.integrators.base import evaluated, kick
from md_gie.md.schedules import Schedule, schedule
from md_gie.md.state import Evaluate, MDState, kinetic_energy_of
from md_gie.units import AMU_A2_FS2_EV, BOLTZMANN_EV_K

# Normal triples drawn at once: on a CPU they stay in its cache, a GPU gets few launches a step.
_NOISE_BLOCK = {"cpu": 2**15, "cuda": 2**20}


class LangevinBAOAB:
    r"""Langevin dynamics at constant temperature, split as B A O A B.

    =====================================================  =======================================
    equation                                               variable
    =====================================================  =======================================
    :math:`\Delta t`                                       ``timestep_fs``, fs
    :math:`T, \gamma`                                      ``temperature_K``, ``friction_per_ps``
    B: :math:`v \leftarrow v + a(x) \Delta t / 2`          ``kick``
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
    temperature_K : float or Schedule
    friction_per_ps : float
    seed : int
    freedom : Freedom
        With ``fixed_center`` the noise moves no centre of mass: its velocity is taken out of each
        kick, which leaves exactly the canonical distribution at zero momentum.

    References
    ----------
    Leimkuhler and Matthews, Appl. Math. Res. Express 2013, 34 (2013), doi:10.1093/amrx/abs010.
    Bookkeeping of the bath: Bussi and Parrinello, Phys. Rev. E 75, 056707 (2007),
    doi:10.1103/PhysRevE.75.056707.
    """

    def __init__(
        self,
        timestep_fs: float,
        temperature_K: float | Schedule,
        friction_per_ps: float,
        seed: int,
        freedom: Freedom,
    ) -> None:
        self.timestep_fs = timestep_fs
        self.freedom = freedom
        self._temperature_K = schedule(temperature_K)
        self._seed = seed
        self._decay = math.exp(-friction_per_ps * 1e-3 * timestep_fs)
        # 1 - exp(-2x) without the cancellation that a small friction would bring.
        self._scatter = math.sqrt(-math.expm1(-2e-3 * friction_per_ps * timestep_fs))
        self._draws: random.Draws | None = None

    def start(self, state: MDState) -> MDState:
        """Return the state: there are no variables but positions and velocities."""
        return state

    def step(self, state: MDState, evaluate: Evaluate) -> MDState:
        """Return the state one timestep later."""
        half = 0.5 * self.timestep_fs
        velocities = kick(state, state.velocities, half, self.freedom)
        positions = state.positions + half * velocities
        before = kinetic_energy_of(velocities, state.masses)
        velocities = self._fluctuate(velocities, state.masses, state.step)
        given = before - kinetic_energy_of(velocities, state.masses)
        moved = state._replace(
            step=state.step + 1,
            positions=positions + half * velocities,
            bath_energy=state.bath_energy + given,
        )
        moved = evaluated(moved, evaluate)
        return moved._replace(velocities=kick(moved, velocities, half, self.freedom))

    def _fluctuate(self, velocities: Tensor, masses: Tensor, step: int) -> Tensor:
        temperature = self._temperature_K.at((step + 0.5) * self.timestep_fs)
        spread = torch.sqrt(BOLTZMANN_EV_K * temperature / (AMU_A2_FS2_EV * masses))
        noise = spread[:, None] * self._noise(step, len(masses), velocities.device)
        if self.freedom.fixed_center:
            noise = noise - center_velocity(noise, masses)
        return self._decay * velocities + self._scatter * self.freedom.restrict(noise)

    def _noise(self, step: int, n_atoms: int, device: torch.device) -> Tensor:
        if self._draws is None:
            self._draws = random.Draws(
                lambda steps: random.normals(
                    self._seed, steps, n_atoms, device, stream=random.THERMOSTAT
                ),
                max(1, min(64, _NOISE_BLOCK[device.type] // n_atoms)),
            )
        return self._draws.at(step)
