"""Constant energy: velocity Verlet."""

from md_gie.md.freedom import Freedom
from md_gie.md.integrators.base import evaluated, kick
from md_gie.md.state import Evaluate, MDState


class VelocityVerlet:
    r"""Velocity Verlet at constant energy.

    ===========================================  ==================================
    equation                                     variable
    ===========================================  ==================================
    :math:`\Delta t`                             ``timestep_fs``, fs
    :math:`x, v, m`                              ``positions, velocities, masses``
    :math:`a = F(x) / m`                         in ``kick``, Å/fs²
    :math:`v \leftarrow v + a(x) \Delta t / 2`   ``kick``
    :math:`x \leftarrow x + v \Delta t`          in :meth:`step`
    :math:`v \leftarrow v + a(x) \Delta t / 2`   ``kick`` with the new forces
    ===========================================  ==================================

    Potential + kinetic energy is conserved up to :math:`O(\Delta t^2)`.

    Parameters
    ----------
    timestep_fs : float
    freedom : Freedom

    References
    ----------
    Swope, Andersen, Berens and Wilson, J. Chem. Phys. 76, 637 (1982), doi:10.1063/1.442716.
    """

    def __init__(self, timestep_fs: float, freedom: Freedom) -> None:
        self.timestep_fs = timestep_fs
        self.freedom = freedom

    def start(self, state: MDState) -> MDState:
        """Return the state: there are no variables but positions and velocities."""
        return state

    def step(self, state: MDState, evaluate: Evaluate) -> MDState:
        """Return the state one timestep later."""
        half = 0.5 * self.timestep_fs
        velocities = kick(state, state.velocities, half, self.freedom)
        positions = state.positions + self.timestep_fs * velocities
        moved = state._replace(step=state.step + 1, positions=positions)
        moved = evaluated(moved, evaluate)
        return moved._replace(velocities=kick(moved, velocities, half, self.freedom))
