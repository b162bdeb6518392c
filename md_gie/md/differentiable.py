"""Gradients through a trajectory: to positions, velocities, masses, cell and model parameters."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from md_gie.engine.base import Evaluation
from md_gie.md.integrators import Integrator
from md_gie.md.state import Evaluate, MDState
from md_gie.neighbors import Edges, NeighborCache

_TENSORS = tuple(name for name in MDState._fields if name != "step")


def differentiable_forces(energy: Callable[[Tensor, Tensor], Tensor]) -> Evaluate:
    r"""Make an evaluation whose forces and virial can be differentiated again.

    Parameters
    ----------
    energy : callable
        Potential energy () in eV of positions (N, 3) and cell (3, 3) in Å, made of operations that
        have second derivatives. Parameters it uses get gradients too.

    Returns
    -------
    callable
        Positions and cell to Evaluation, with :math:`F = -\partial E / \partial x` and
        :math:`W = -\partial E / \partial \varepsilon` for a strain of positions and cell. The
        energy is not divided among atoms: ``atomic_energies`` is (1,).
    """

    def evaluate(positions: Tensor, cell: Tensor) -> Evaluation:
        with torch.enable_grad():
            if not positions.requires_grad:
                positions = positions.detach().requires_grad_()
            strain = torch.zeros(3, 3, dtype=cell.dtype, device=cell.device, requires_grad=True)
            value = energy(positions + positions @ strain, cell + cell @ strain)
            by_position, by_strain = torch.autograd.grad(
                value, (positions, strain), create_graph=True, materialize_grads=True
            )
        return Evaluation(value, -by_position, -by_strain, value.reshape(1))

    return evaluate


def model_energy(
    model: Callable[[Tensor, Edges, Tensor], Tensor],
    types: Tensor,
    cache: NeighborCache,
    pbc: tuple[bool, bool, bool],
) -> Callable[[Tensor, Tensor], Tensor]:
    """Make the potential energy of a model for :func:`differentiable_forces`.

    Parameters
    ----------
    model : callable
        Atomic energies of types, edges and edge vectors: a ``DPA4`` from
        ``md_gie.model.load_model``, in float64 (``model.double()``) and not frozen, whose
        parameters then get gradients.
    types : (N,) int64
        Index of each atom's element in ``model.config.type_map``.
    cache : NeighborCache
        With the model's cutoff.
    pbc : three bools

    Returns
    -------
    callable
        Positions (N, 3) and cell (3, 3) in Å to energy () in eV.
    """

    def energy(positions: Tensor, cell: Tensor) -> Tensor:
        edges = cache.update(positions, cell, pbc)
        apart = positions[edges.src.long()] - positions[edges.dst.long()]
        # Which images edges lead to is constant; where these are follows the cell.
        images = (edges.vectors - apart.detach()) @ torch.linalg.pinv(cell.detach())
        return model(types, edges, apart + images @ cell).sum()

    return energy


def roll(
    state: MDState, integrator: Integrator, evaluate: Evaluate, n_steps: int, *, segment: int = 10
) -> MDState:
    """Make steps through which gradients flow, with memory for few of them.

    Only the states between segments are kept; the backward pass makes the steps of each segment
    again. Memory grows with ``n_steps / segment + segment``, time by one more forward pass.

    Parameters
    ----------
    state : MDState
        Gradients reach what requires them in it.
    integrator : Integrator
    evaluate : callable
        From :func:`differentiable_forces`.
    n_steps, segment : int

    Returns
    -------
    MDState
        After ``n_steps``; the same numbers as from single steps.

    References
    ----------
    Chen, Xu, Zhang and Guestrin, arXiv:1604.06174 (2016).
    """
    while n_steps > 0:
        count = min(segment, n_steps)
        state = _segment(state, integrator, evaluate, count)
        n_steps -= count
    return state


def _segment(state: MDState, integrator: Integrator, evaluate: Evaluate, count: int) -> MDState:
    first = state.step

    def steps(*tensors: Tensor) -> tuple[Tensor, ...]:
        inner = MDState(first, *tensors)
        for _ in range(count):
            inner = integrator.step(inner, evaluate)
        return tuple(getattr(inner, name) for name in _TENSORS)

    given = [getattr(state, name) for name in _TENSORS]
    # Noise comes from counters: there is no generator state to put back.
    after = checkpoint(steps, *given, use_reentrant=False, preserve_rng_state=False)
    return MDState(first + count, *after)
