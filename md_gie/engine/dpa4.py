"""Engine of a DPA4 model: types and checks around a step that is eager, compiled or captured."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from md_gie.engine.base import Evaluation
from md_gie.engine.compiled import CompiledStep
from md_gie.engine.derivatives import atomic_virials_from_edges
from md_gie.engine.graph import GraphStep
from md_gie.engine.packaged import packaged_step
from md_gie.engine.precision import matmul_precision
from md_gie.engine.step import ModelStep, Step
from md_gie.errors import SimulationError, StructureError
from md_gie.model import DPA4
from md_gie.model.halo import Halo
from md_gie.ops import Edges
from md_gie.structure import symbols_of

DTYPES = {"float32": torch.float32, "float64": torch.float64}
"""Names of the network's dtypes."""


class DPA4Engine:
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
    compile : bool or str
        False, True, ``graph`` or ``capture``; see :func:`md_gie.engine.load_potential`.
    tf32 : bool
        Allow matrix products in TF32 on a GPU.
    package : Path, optional
        Compiled package that provides the step, if it was made for this device.

    Attributes
    ----------
    model : DPA4
    step : Step
        What an evaluation without halo runs.
    """

    def __init__(
        self,
        model: DPA4,
        *,
        name: str,
        device: torch.device,
        dtype: torch.dtype,
        kernels: str,
        compile: bool | str = False,  # noqa: A002
        tf32: bool = False,
        package: Path | None = None,
    ) -> None:
        self.model = model.freeze(dtype, device, kernels)
        self.name = name
        self.species = model.config.type_map
        self.cutoff = model.config.rcut
        self.device = device
        self.dtype = dtype
        self.kernels = kernels
        self.tf32 = tf32
        self._eager = ModelStep(self.model)
        self.step: Step = self._eager
        if package is not None:
            self.step = packaged_step(package, device, self._eager)
        elif compile and compile != "capture":
            with matmul_precision(device, tf32=tf32):  # the graph keeps what it was traced with
                self.step = CompiledStep(self._eager, device)
        if compile in ("graph", "capture"):
            self.step = GraphStep(self.step, device, self.cutoff)
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
        with matmul_precision(self.device, tf32=self.tf32):
            result = self.step(types, edges) if halo is None else self._eager(types, edges, halo)
        energies, gradient, forces, virial = result
        _check_finite(self.name, energies, forces)
        return Evaluation(
            energy=energies.sum(),
            forces=forces,
            virial=virial,
            atomic_energies=energies,
            atomic_virials=atomic_virials_from_edges(gradient, edges) if atomic_virials else None,
        )


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
