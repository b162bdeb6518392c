"""One evaluation as a pure function of tensors: what is traced, compiled and captured."""

from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from md_gie.engine.derivatives import forces_from_edges, virial_from_edges
from md_gie.model import DPA4
from md_gie.model.halo import Halo
from md_gie.ops import Edges


class StepResult(NamedTuple):
    """Result of a step.

    Attributes
    ----------
    energies : (N,) float64, eV
        Atomic energies.
    gradient : (E, 3) float64, eV/Å
        Derivative of their sum for the edge vectors.
    forces : (N, 3) float64, eV/Å
    virial : (3, 3) float64, eV
    """

    energies: Tensor
    gradient: Tensor
    forces: Tensor
    virial: Tensor


class Step(Protocol):
    """From types (N,) and edges to the result; E may count padding behind ``row_ptr[N]``."""

    def __call__(self, types: Tensor, edges: Edges) -> StepResult:
        """Evaluate; the result is the caller's to keep."""
        ...


class ModelStep:
    """Evaluation operation by operation."""

    def __init__(self, model: DPA4) -> None:
        self._model = model

    def __call__(self, types: Tensor, edges: Edges, halo: Halo | None = None) -> StepResult:
        """Evaluate; with a halo the energy is that of own atoms, see the engine."""
        leaf = edges.vectors.detach().clone().requires_grad_()
        with torch.enable_grad(), _same_thread(halo):
            energies = self._model(types, edges, leaf, halo)
            if halo is not None:
                energies = energies[: halo.n_own]
            if edges.n_edges or halo is not None:
                # Without edges, too: other processes wait for what the exchanges send back.
                (gradient,) = torch.autograd.grad(energies.sum(), leaf)
            else:
                gradient = torch.zeros_like(leaf)
        gradient = gradient.detach()
        return StepResult(
            energies=energies.detach(),
            gradient=gradient,
            forces=forces_from_edges(gradient, edges),
            virial=virial_from_edges(gradient, edges.vectors),
        )


def _same_thread(halo: Halo | None) -> AbstractContextManager[object]:
    """Keep the backward pass, and with it the exchanges, in the thread that calls."""
    if halo is None:
        return nullcontext()
    return torch.autograd.set_multithreading_enabled(False)
