"""What the loop needs of an integrator, and the moves that integrators are made of."""

from typing import Protocol

from torch import Tensor

from md_gie.md.freedom import Freedom
from md_gie.md.state import Evaluate, MDState
from md_gie.units import AMU_A2_FS2_EV


class Integrator(Protocol):
    """Takes a state to the next; two calls with equal states return equal bits.

    Nothing is changed in place, and a step asks for energy and forces once, so that gradients
    flow through a step if they flow through the evaluation.

    Attributes
    ----------
    timestep_fs : float
    freedom : Freedom
    """

    timestep_fs: float
    freedom: Freedom

    def start(self, state: MDState) -> MDState:
        """Return a state of step 0 with the integrator's own variables in it."""
        ...

    def step(self, state: MDState, evaluate: Evaluate) -> MDState:
        """Return the state one timestep later."""
        ...


def kick(state: MDState, velocities: Tensor, time_fs: float, freedom: Freedom) -> Tensor:
    """Velocities after a time under the forces of a state; frozen atoms keep theirs."""
    accelerations = state.forces / (AMU_A2_FS2_EV * state.masses[:, None])
    return velocities + time_fs * freedom.restrict(accelerations)


def evaluated(state: MDState, evaluate: Evaluate) -> MDState:
    """Return a state with energy, forces and virial of its positions and cell."""
    result = evaluate(state.positions, state.cell)
    return state._replace(energy=result.energy, forces=result.forces, virial=result.virial)
