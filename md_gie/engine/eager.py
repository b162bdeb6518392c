"""Eager engine: one model, evaluated operation by operation on a CPU or GPU."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from md_gie.engine.base import Evaluation
from md_gie.engine.derivatives import (
    atomic_virials_from_edges,
    forces_from_edges,
    virial_from_edges,
)
from md_gie.errors import SimulationError, StructureError
from md_gie.model import DPA4
from md_gie.model.halo import Halo
from md_gie.ops import Edges
from md_gie.structure import symbols_of


class EagerEngine:
    """A DPA4 model ready for evaluation; satisfies :class:`md_gie.engine.base.Engine`.

    Parameters
    ----------
    model : DPA4
        Model with its parameters; it is folded here and must not be trained afterwards.
    name : str
        Shown in messages and written into trajectories.
    device : torch.device
        Where evaluations run.
    dtype : torch.dtype
        float32 or float64: arithmetic of the network. Energies are summed, and forces and virial
        accumulated, in float64 always.
    kernels : str
        ``auto``, ``triton`` or ``reference``.
    """

    def __init__(
        self, model: DPA4, *, name: str, device: torch.device, dtype: torch.dtype, kernels: str
    ) -> None:
        self.model = model.freeze(dtype, device, kernels)
        self.name = name
        self.species = model.config.type_map
        self.cutoff = model.config.rcut
        self.device = device
        self.dtype = dtype
        self.kernels = kernels
        self._type_of = {symbol: index for index, symbol in enumerate(self.species)}

    def types_of(self, numbers: Sequence[int]) -> Tensor:
        """Types (N,) int64 of atomic numbers.

        Raises
        ------
        StructureError
            If the model does not know an element; the message lists symbols, indices and what the
            model knows.
        """
        symbols = symbols_of(numbers)
        unknown = [i for i, symbol in enumerate(symbols) if symbol not in self._type_of]
        if unknown:
            names = sorted({symbols[i] for i in unknown})
            shown = ", ".join(map(str, unknown[:10])) + (", …" if len(unknown) > 10 else "")
            raise StructureError(
                f"{self.name} does not know {', '.join(names)} ({len(unknown)} atoms, indices "
                f"{shown}); it knows {', '.join(self.species)}",
                symbols=names,
                indices=unknown,
                species=self.species,
            )
        types = [self._type_of[symbol] for symbol in symbols]
        return torch.tensor(types, dtype=torch.int64, device=self.device)

    @property
    def reach(self) -> int:
        """Number of cutoffs over which an atom's energy depends on others."""
        return len(self.model.blocks) + 1

    def evaluate(
        self,
        types: Tensor,
        edges: Edges,
        *,
        atomic_virials: bool = False,
        halo: Halo | None = None,
    ) -> Evaluation:
        r"""Evaluate energy, forces and virial of one configuration.

        Forces are the exact negative gradient of the returned energy; an edge longer than
        ``cutoff`` adds nothing to any output.

        Parameters
        ----------
        types : (N,) int64
            From :meth:`types_of`.
        edges : Edges
            Connectivity and vectors, on the engine's device.
        atomic_virials : bool
            Also give each atom's share of the virial.
        halo : Halo, optional
            Where other processes have a part in the configuration: the energy is that of own atoms;
            rows of copies in forces and atomic virials belong to their owners, who must add them.

        Returns
        -------
        Evaluation
            The virial is :math:`W_{ab} = -\sum_e v_{e,b}\, \partial E / \partial v_{e,a}`.

        Raises
        ------
        SimulationError
            If the energy or a force is not finite.

        References
        ----------
        Virial of many-body potentials under periodic boundaries: Thompson, Plimpton and Mattson,
        J. Chem. Phys. 131, 154107 (2009), doi:10.1063/1.3245303.
        """
        leaf = edges.vectors.detach().to(self.dtype, copy=True).requires_grad_()
        with torch.enable_grad(), _same_thread(halo):
            energies = self.model(types, edges, leaf, halo)
            if halo is not None:
                energies = energies[: halo.n_own]
            energy = energies.sum()
            if edges.n_edges or halo is not None:
                # Without edges, too: other processes wait for what the exchanges send back.
                (gradient,) = torch.autograd.grad(energy, leaf)
            else:
                gradient = torch.zeros_like(leaf)
        gradient = gradient.detach().double()
        forces = forces_from_edges(gradient, edges)
        _check_finite(self.name, energies.detach(), forces)
        return Evaluation(
            energy=energy.detach(),
            forces=forces,
            virial=virial_from_edges(gradient, edges.vectors),
            atomic_energies=energies.detach(),
            atomic_virials=atomic_virials_from_edges(gradient, edges) if atomic_virials else None,
        )


def _same_thread(halo: Halo | None) -> AbstractContextManager[object]:
    """Keep the backward pass, and with it the exchanges, in the thread that calls."""
    if halo is None:
        return nullcontext()
    return torch.autograd.set_multithreading_enabled(False)


def _check_finite(name: str, energies: Tensor, forces: Tensor) -> None:
    bad = ~torch.isfinite(forces).all(1)
    bad[: energies.shape[0]] |= ~torch.isfinite(energies)
    if bool(bad.any()):
        atoms = bad.nonzero().flatten().tolist()
        raise SimulationError(
            f"{name} gives an energy or force that is not finite for {len(atoms)} atoms, the first "
            f"are {atoms[:5]}; the structure is outside of the model's range, or float32 overflows "
            "(try dtype='float64')",
            atoms=atoms,
        )
