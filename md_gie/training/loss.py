"""Energies and forces of a batch, and the loss that is differentiated twice."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from md_gie.training.config import LossConfig
from md_gie.training.data import Batch


class Prediction(NamedTuple):
    """Model outputs of a batch: energies (B,) float64, eV; forces (N, 3), eV/Å."""

    energies: Tensor
    forces: Tensor


def predict(model: nn.Module, batch: Batch, *, create_graph: bool) -> Prediction:
    """Evaluate energies and forces of a batch.

    Parameters
    ----------
    model : nn.Module
        Called as ``model(types, edges, vectors) -> atomic energies (N,) float64``.
    batch : Batch
    create_graph : bool
        Keep the graph of the first derivative, so that the forces can be differentiated.

    Notes
    -----
    ``F_k = sum_{dst=k} dE/dv - sum_{src=k} dE/dv``, because an edge vector points from ``dst``
    to ``src``.
    """
    vectors = batch.edges.vectors.detach().requires_grad_()
    atomic = model(batch.types, batch.edges, vectors)
    (gradient,) = torch.autograd.grad(atomic.sum(), vectors, create_graph=create_graph)
    forces = torch.zeros_like(batch.forces)
    forces = forces.index_add(0, batch.edges.dst, gradient)
    forces = forces.index_add(0, batch.edges.src, gradient, alpha=-1.0)
    # One frame more than there are: that of atoms which only pad the batch.
    energies = batch.energies.new_zeros(batch.energies.shape[0] + 1)
    energies = energies.index_add(0, batch.frame, atomic)[:-1]
    return Prediction(energies, forces)


def energy_weight(config: LossConfig, progress: float) -> float:
    """Weight of the energy term: grows geometrically, so that forces shape the model first."""
    start, end = config.energy_weight_start, config.energy_weight_end
    return float(start * (end / start) ** min(max(progress, 0.0), 1.0))


def training_loss(
    prediction: Prediction, batch: Batch, config: LossConfig, weight: float | Tensor
) -> Tensor:
    """Weighted mean loss of force components (eV/Å) and energies per atom (eV), () float64.

    Atoms that pad a batch have forces and labels of zero and do not count in the mean.
    """
    n_components = 3 * batch.n_atoms.sum()
    force_errors = (prediction.forces - batch.forces).double()
    energy_errors = (prediction.energies - batch.energies) / batch.n_atoms
    if config.kind == "huber":
        forces = nn.functional.huber_loss(
            force_errors,
            torch.zeros_like(force_errors),
            delta=config.huber_delta_eV_A,
            reduction="sum",
        )
        forces = forces / n_components
        # The same factor 2 as for forces below: huber_loss is half the square near zero.
        return 2 * config.force_weight * forces + weight * energy_errors.square().mean()
    forces = force_errors.square().sum() / n_components
    return config.force_weight * forces + weight * energy_errors.square().mean()
