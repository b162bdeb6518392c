"""Constant temperature by one factor for all velocities: stochastic velocity rescaling."""

import math

import torch
from torch import Tensor

from md_gie.md import random
from md_gie.md.freedom import Freedom
from md_gie.md.integrators.verlet import VelocityVerlet
from md_gie.md.schedules import Schedule, schedule
from md_gie.md.state import Evaluate, MDState, kinetic_energy
from md_gie.units import BOLTZMANN_EV_K

_BLOCK = 64


class StochasticRescaling:
    r"""Stochastic velocity rescaling: the kinetic energy follows its own Langevin equation.

    Exact solution over one step, after which velocities have the factor :math:`\alpha`:

    .. math::

        \alpha^2 = c + \frac{(1-c) \bar K}{N_f K} \Bigl(R_1^2 + \sum_{i=2}^{N_f} R_i^2\Bigr)
            + 2 R_1 \sqrt{\frac{c (1-c) \bar K}{N_f K}}

    ===========================================  ===================================================
    equation                                     variable
    ===========================================  ===================================================
    :math:`\Delta t, T, \tau`                    ``timestep_fs, temperature_K, time_fs``
    :math:`c = e^{-\Delta t / \tau}`             ``_keep``
    :math:`N_f`                                  ``freedom.count``
    :math:`K, \bar K = N_f k T / 2`              ``kinetic``, ``target``
    :math:`R_1`, normal                          ``_normal``, from (seed, step)
    :math:`\sum_{i=2}^{N_f} R_i^2`               ``_rest``: twice a gamma number of shape
                                                 :math:`(N_f - 1)/2`, from (seed, step)
    sign of :math:`\alpha`                       that of :math:`R_1 + \sqrt{c N_f K / (1-c) \bar K}`
    ===========================================  ===================================================

    Energy that the factor takes away is added to ``bath_energy``, so that potential + kinetic +
    bath energy is conserved as well as the step in between conserves it.

    Parameters
    ----------
    timestep_fs : float
    temperature_K : float or Schedule
    time_fs : float
        Time in which the kinetic energy relaxes; 0 draws it anew each step.
    seed : int
    freedom : Freedom

    References
    ----------
    Bussi, Donadio and Parrinello, J. Chem. Phys. 126, 014101 (2007), doi:10.1063/1.2408420,
    equation A7; sign: Bussi and Parrinello, Comput. Phys. Commun. 179, 26 (2008),
    doi:10.1016/j.cpc.2008.01.006.
    """

    def __init__(
        self,
        timestep_fs: float,
        temperature_K: float | Schedule,
        time_fs: float,
        seed: int,
        freedom: Freedom,
    ) -> None:
        self.freedom = freedom
        self._timestep_fs = timestep_fs
        self._temperature_K = schedule(temperature_K)
        self._keep = math.exp(-timestep_fs / time_fs) if time_fs else 0.0
        cpu, shape = torch.device("cpu"), 0.5 * (freedom.count - 1)

        def draw(steps: range) -> Tensor:
            normal = random.normals(seed, steps, 1, cpu, stream=random.RESCALING)[:, 0, 0]
            rest = torch.zeros_like(normal)
            if freedom.count > 1:
                rest = 2.0 * random.gammas(seed, steps, shape, stream=random.RESCALING_REST)
            return torch.stack([normal, rest], dim=1)

        self._draws = random.Draws(draw, _BLOCK)

    def apply(self, state: MDState) -> MDState:
        """Return a state with rescaled velocities."""
        # The number of the step that has just been made, so that step and rescaling agree.
        step = state.step - 1
        normal, rest = self._draws.at(step).tolist()
        keep = self._keep
        temperature = self._temperature_K.at((step + 0.5) * self._timestep_fs)
        kinetic = kinetic_energy(state)
        each = 0.5 * BOLTZMANN_EV_K * temperature / kinetic  # target / (N_f K)
        cross = math.sqrt(keep * (1.0 - keep)) * normal
        square = keep + (1.0 - keep) * (normal * normal + rest) * each
        square = square + 2.0 * cross * torch.sqrt(each)
        # R_1 + sqrt(c K / (1 - c) each), without the division by 1 - c or each.
        sign = torch.sign(math.sqrt(1.0 - keep) * normal * torch.sqrt(each) + math.sqrt(keep))
        factor = sign * torch.sqrt(square)
        return state._replace(
            velocities=factor * state.velocities,
            bath_energy=state.bath_energy + kinetic * (1.0 - square),
        )


class BussiVerlet:
    """Velocity Verlet, and stochastic rescaling of velocities after each step.

    Parameters are those of :class:`StochasticRescaling`.
    """

    def __init__(
        self,
        timestep_fs: float,
        temperature_K: float | Schedule,
        time_fs: float,
        seed: int,
        freedom: Freedom,
    ) -> None:
        self.timestep_fs = timestep_fs
        self.freedom = freedom
        self._verlet = VelocityVerlet(timestep_fs, freedom)
        self._thermostat = StochasticRescaling(timestep_fs, temperature_K, time_fs, seed, freedom)

    def start(self, state: MDState) -> MDState:
        """Return the state: there are no variables but positions and velocities."""
        return state

    def step(self, state: MDState, evaluate: Evaluate) -> MDState:
        """Return the state one timestep later."""
        return self._thermostat.apply(self._verlet.step(state, evaluate))
