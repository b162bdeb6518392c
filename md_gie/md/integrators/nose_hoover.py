"""Constant temperature without random numbers: Nosé–Hoover chains."""

import math

import torch
from torch import Tensor

from md_gie.md.freedom import Freedom
from md_gie.md.integrators.verlet import VelocityVerlet
from md_gie.md.schedules import Schedule, schedule
from md_gie.md.state import Evaluate, MDState, kinetic_energy
from md_gie.units import BOLTZMANN_EV_K

# Fourth order by three steps of second order: Yoshida, Phys. Lett. A 150, 262 (1990),
# doi:10.1016/0375-9601(90)90092-3.
_OUTER = 1.0 / (2.0 - 2.0 ** (1.0 / 3.0))
_WEIGHTS = (_OUTER, 1.0 - 2.0 * _OUTER, _OUTER)

# A float in a run. A tensor where gradients are wanted.
_Scalar = float | Tensor


class NoseHooverChains:
    r"""Velocity Verlet between two half steps of a chain of Nosé–Hoover thermostats.

    ===================================================  =======================================
    equation                                             variable
    ===================================================  =======================================
    :math:`\Delta t, T, \tau`                            ``timestep_fs, temperature_K, time_fs``
    :math:`N_f, M`                                       ``freedom.count``, ``chain_length``
    :math:`Q_1 = N_f k T \tau^2`                         ``_masses[0]``, eV fs²
    :math:`Q_j = k T \tau^2`                             ``_masses[j]``
    :math:`\dot\eta_j`                                   ``rates[j]``, 1/fs, in ``state.bath``
    :math:`\int kT (N_f \dot\eta_1 + \sum \dot\eta_j)`   ``work``, eV, last in ``state.bath``
    :math:`\ddot\eta_1 = (2 K - N_f k T) / Q_1`          ``_push``
    :math:`\ddot\eta_j = (Q_{j-1} \dot\eta_{j-1}^2       ``_push``
    - k T) / Q_j`
    :math:`v \leftarrow v e^{-\dot\eta_1 \delta}`        ``scale``
    :math:`\delta = w_k \Delta t / 2`                    ``_WEIGHTS``, fourth order
    ===================================================  =======================================

    ``bath_energy`` is the work and the chain's kinetic energy, so that potential + kinetic + bath
    energy is conserved up to :math:`O(\Delta t^2)`, also along a temperature ramp. The masses are
    those of the ramp's highest temperature.

    Parameters
    ----------
    timestep_fs : float
    temperature_K : float or Schedule
    time_fs : float
        Period of the chain is about this times :math:`\sqrt 2 \pi`.
    chain_length : int
        At least 1; one thermostat alone is not ergodic for stiff or small systems.
    freedom : Freedom

    References
    ----------
    Martyna, Klein and Tuckerman, J. Chem. Phys. 97, 2635 (1992), doi:10.1063/1.463940; integrator:
    Martyna, Tuckerman, Tobias and Klein, Mol. Phys. 87, 1117 (1996), doi:10.1080/00268979600100761.
    """

    def __init__(
        self,
        timestep_fs: float,
        temperature_K: float | Schedule,
        time_fs: float,
        chain_length: int,
        freedom: Freedom,
    ) -> None:
        self.timestep_fs = timestep_fs
        self.freedom = freedom
        self._verlet = VelocityVerlet(timestep_fs, freedom)
        self._temperature_K = schedule(temperature_K)
        each = BOLTZMANN_EV_K * self._temperature_K.highest * time_fs**2
        self._masses = [freedom.count * each] + [each] * (chain_length - 1)

    def start(self, state: MDState) -> MDState:
        """Return a state with a chain at rest."""
        return state._replace(bath=torch.zeros(len(self._masses) + 1, dtype=torch.float64))

    def step(self, state: MDState, evaluate: Evaluate) -> MDState:
        """Return the state one timestep later."""
        state = self._turn(state, state.step * self.timestep_fs)
        state = self._verlet.step(state, evaluate)
        return self._turn(state, state.step * self.timestep_fs)

    def _turn(self, state: MDState, time_fs: float) -> MDState:
        kT = BOLTZMANN_EV_K * self._temperature_K.at(time_fs)
        energy = kinetic_energy(state)
        differentiable = energy.requires_grad or state.bath.requires_grad
        # A chain is dozens of operations on single numbers: far cheaper on the host.
        kinetic: _Scalar = energy.cpu() if differentiable else energy.item()
        values: list[_Scalar] = list(state.bath.unbind() if differentiable else state.bath.tolist())
        *rates, work = values
        scale: _Scalar = 1.0
        for weight in _WEIGHTS:
            delta = 0.5 * weight * self.timestep_fs
            for place in reversed(range(len(rates))):
                rates[place] = self._push(rates, place, kinetic, kT, delta)
            factor = _exp(-delta * rates[0])
            scale, kinetic = scale * factor, kinetic * factor * factor
            work = work + delta * kT * (self.freedom.count * rates[0] + sum(rates[1:]))
            for place in range(len(rates)):
                rates[place] = self._push(rates, place, kinetic, kT, delta)
        moving = sum(0.5 * q * rate * rate for q, rate in zip(self._masses, rates, strict=True))
        device = state.velocities.device
        return state._replace(
            velocities=state.velocities * _tensor(scale).to(device),
            bath=torch.stack([_tensor(value) for value in (*rates, work)]),
            bath_energy=_tensor(work + moving).to(device),
        )

    def _push(
        self, rates: list[_Scalar], place: int, kinetic: _Scalar, kT: float, delta: float
    ) -> _Scalar:
        masses = self._masses
        drag: _Scalar = 1.0
        if place + 1 < len(rates):
            drag = _exp(-0.25 * delta * rates[place + 1])
        if place == 0:
            excess = 2.0 * kinetic - self.freedom.count * kT
        else:
            excess = masses[place - 1] * rates[place - 1] * rates[place - 1] - kT
        return (rates[place] * drag + 0.5 * delta * excess / masses[place]) * drag


def _exp(x: _Scalar) -> _Scalar:
    return torch.exp(x) if isinstance(x, Tensor) else math.exp(x)


def _tensor(x: _Scalar) -> Tensor:
    return x if isinstance(x, Tensor) else torch.tensor(x, dtype=torch.float64)
