"""Constant temperature and pressure: stochastic rescaling of cell and velocities."""

import math
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from md_gie.md import random
from md_gie.md.freedom import Freedom
from md_gie.md.integrators.base import evaluated, kick
from md_gie.md.integrators.rescaling import StochasticRescaling
from md_gie.md.schedules import Schedule, schedule
from md_gie.md.state import Evaluate, MDState, kinetic_energy_of, kinetic_tensor, volume
from md_gie.units import BOLTZMANN_EV_K, EV_A3_GPA

Coupling: TypeAlias = Literal["isotropic", "anisotropic", "full-cell"]

_BLOCK = 64
_DIMENSIONS = 3
_UNIT = torch.eye(_DIMENSIONS, dtype=torch.float64)


class StochasticCellRescaling:
    r"""Velocity Verlet with a cell that follows the pressure, and rescaled velocities.

    In the middle of each step, cell, positions and velocities are deformed by a symmetric strain
    E: :math:`h \leftarrow h e^E`, :math:`x \leftarrow x e^E`, :math:`v \leftarrow v e^{-E}`.

    .. math::

        E = \frac{\beta \Delta t}{3 \tau_p} \Bigl(P - P_0 + \frac{3N - N_f}{3} \frac{kT}{V}\Bigr)
            + \sqrt{\frac{2 \beta kT \Delta t}{3 V \tau_p}}\, \Xi

    ==============================================  ==============================================
    equation                                        variable
    ==============================================  ==============================================
    :math:`\Delta t, T`                             ``timestep_fs, temperature_K``
    :math:`P_0, \tau_p, \beta`                      ``pressure_GPa, barostat_fs``,
                                                    ``compressibility_per_GPa``
    :math:`V P = W + \sum m v \otimes v`            ``tension``; W is the last virial, v that of
                                                    the middle of the step
    :math:`(3N - N_f)/3`                            ``_missing``: momentum that the kinetic part
                                                    lacks if the centre of mass is fixed
    :math:`\Xi` full-cell                           symmetric; variance 1 on its diagonal, 1/2 off
                                                    it; ``_noise``, from (seed, step)
    :math:`\Xi` anisotropic                         the diagonal alone, and that of P
    :math:`\Xi` isotropic                           unit matrix times a number of variance 1/3,
                                                    and the mean of the diagonal of P
    ==============================================  ==============================================

    The volume then follows the equation of Bernetti and Bussi in every coupling. The three are one
    diffusion on the group of deformations: with :math:`D = kT \beta / 3 V \tau_p` and the density
    :math:`V e^{-(H + P_0 V)/kT}` relative to its Haar measure, the drift
    :math:`D\, \partial \ln p + \partial D` is the one above, because the derivative of D cancels
    that of ln V. So all sample the isothermal-isobaric ensemble of an isotropic pressure.

    Preferred over extended systems (Martyna, Tobias and Klein) because it is of first order, and so
    does not ring when it starts far from equilibrium, is ergodic for any system, and keeps
    no variables beyond the cell.

    ``bath_energy`` takes the kinetic energy that is lost and the work
    :math:`(W_{before} + W_{after}) : E / 2` of the virial, and what the thermostat takes, so that
    potential + kinetic + bath energy is conserved up to :math:`O(\Delta t^2)` and, as the noise
    in E is of the order of :math:`\sqrt{\Delta t}`, an :math:`O(\Delta t)` of its third power,
    which is small for a sensible ``barostat_fs``.

    Parameters
    ----------
    timestep_fs : float
    temperature_K, pressure_GPa : float or Schedule
    thermostat_fs, barostat_fs : float
        Relaxation times of kinetic energy and volume.
    compressibility_per_GPa : float
        An estimate; it sets with ``barostat_fs`` the speed, and no average.
    coupling : {"isotropic", "anisotropic", "full-cell"}
        Isotropic keeps the cell's shape, anisotropic scales along x, y and z, full-cell deforms it
        in every way that is no rotation.
    seed : int
    freedom : Freedom
        Without frozen atoms.

    References
    ----------
    Bernetti and Bussi, J. Chem. Phys. 153, 114107 (2020), doi:10.1063/5.0020514; for
    crystals: Del Tatto, Raiteri, Bernetti and Bussi, Appl. Sci. 12, 1139 (2022),
    doi:10.3390/app12031139.
    """

    def __init__(
        self,
        timestep_fs: float,
        temperature_K: float | Schedule,
        pressure_GPa: float | Schedule,
        *,
        thermostat_fs: float,
        barostat_fs: float,
        compressibility_per_GPa: float,
        coupling: Coupling,
        seed: int,
        freedom: Freedom,
    ) -> None:
        self.timestep_fs = timestep_fs
        self.freedom = freedom
        self._temperature_K = schedule(temperature_K)
        self._pressure_GPa = schedule(pressure_GPa)
        self._coupling = coupling
        # Å³/eV: strain per pressure in one step.
        compressibility = compressibility_per_GPa * EV_A3_GPA
        self._gain = compressibility * timestep_fs / (_DIMENSIONS * barostat_fs)
        self._thermostat = StochasticRescaling(
            timestep_fs, temperature_K, thermostat_fs, seed, freedom
        )
        self._draws = random.Draws(lambda steps: _noise(seed, steps), _BLOCK)

    def start(self, state: MDState) -> MDState:
        """Return the state: there are no variables but positions, velocities and cell."""
        return state

    def step(self, state: MDState, evaluate: Evaluate) -> MDState:
        """Return the state one timestep later."""
        half = 0.5 * self.timestep_fs
        velocities = kick(state, state.velocities, half, self.freedom)
        positions = state.positions + half * velocities
        strain = self._strain(state, velocities)
        stretch, shrink = self._exponentials(strain, positions.device)
        before = kinetic_energy_of(velocities, state.masses)
        velocities = velocities @ shrink
        moved = state._replace(
            step=state.step + 1,
            positions=positions @ stretch + half * velocities,
            cell=state.cell @ stretch,
        )
        moved = evaluated(moved, evaluate)
        given = before - kinetic_energy_of(velocities, state.masses)
        # The virial is the loss of energy by strain: half of it before and half after.
        strain = strain.to(positions.device)
        given = given + 0.5 * ((state.virial + moved.virial) * strain).sum()
        moved = moved._replace(
            velocities=kick(moved, velocities, half, self.freedom),
            bath_energy=state.bath_energy + given,
        )
        return self._thermostat.apply(moved)

    def _strain(self, state: MDState, velocities: Tensor) -> Tensor:
        """Strain of a step, (3, 3) symmetric, on the host."""
        time_fs = (state.step + 0.5) * self.timestep_fs
        kT = BOLTZMANN_EV_K * self._temperature_K.at(time_fs)
        pressure = self._pressure_GPa.at(time_fs) / EV_A3_GPA
        missing = len(state.masses) - self.freedom.count / _DIMENSIONS
        size = volume(state.cell).cpu()
        tension = (state.virial + kinetic_tensor(velocities, state.masses)).cpu()
        drift = tension / size + (missing * kT / size - pressure) * _UNIT
        noise = torch.sqrt(2.0 * kT * self._gain / size) * self._draws.at(state.step)
        strain = self._gain * 0.5 * (drift + drift.T) + noise
        if self._coupling == "full-cell":
            return strain
        if self._coupling == "anisotropic":
            return strain * _UNIT
        # The mean of three independent numbers of variance 1 has variance 1/3.
        return strain.trace() / _DIMENSIONS * _UNIT

    def _exponentials(self, strain: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
        """Matrix exponentials of a strain and of its negative."""
        if self._coupling == "full-cell":
            both = torch.linalg.matrix_exp(torch.stack([strain, -strain]))
        else:
            stretch = torch.exp(strain.diagonal())
            both = torch.diag_embed(torch.stack([stretch, 1.0 / stretch]))
        stretch, shrink = both.to(device).unbind()
        return stretch, shrink


def _noise(seed: int, steps: range) -> Tensor:
    """Symmetric matrices (len(steps), 3, 3); variance 1 on the diagonal, 1/2 off it."""
    cpu = torch.device("cpu")
    diagonal, rest = random.normals(seed, steps, 2, cpu, stream=random.BAROSTAT).unbind(1)
    mixed = torch.zeros(len(steps), _DIMENSIONS, _DIMENSIONS, dtype=torch.float64)
    mixed[:, [0, 0, 1], [1, 2, 2]] = math.sqrt(0.5) * rest
    return torch.diag_embed(diagonal) + mixed + mixed.transpose(1, 2)
