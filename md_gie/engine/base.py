"""What drivers and bridges see of a potential: the engine protocol and its result."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from md_gie.model.halo import Halo
from md_gie.neighbors import Edges


class Evaluation(NamedTuple):
    """Energy and its derivatives for one configuration.

    Attributes
    ----------
    energy : () float64, eV
    forces : (N, 3) float64, eV/Å
        Exact negative gradient of ``energy``.
    virial : (3, 3) float64, eV
        ``-dE/d strain`` (positive under compression; Cauchy stress is ``-virial / volume``).
    atomic_energies : (N,) float64, eV
        Sum to ``energy``.
    atomic_virials : (N, 3, 3) float64, eV, or None
        Each edge's share split evenly between its two atoms; only if asked for.
    """

    energy: Tensor
    forces: Tensor
    virial: Tensor
    atomic_energies: Tensor
    atomic_virials: Tensor | None = None


class Engine(Protocol):
    """A potential ready to be evaluated: device, dtype and kernels are settled."""

    name: str
    species: tuple[str, ...]  # element symbols; the index is the model's type
    cutoff: float  # Å
    device: torch.device
    dtype: torch.dtype

    def types_of(self, numbers: Sequence[int]) -> Tensor:
        """Model types (N,) int64 on ``device``; StructureError for unknown elements."""
        ...

    def evaluate(self, types: Tensor, edges: Edges, *, atomic_virials: bool = False) -> Evaluation:
        """Energy, forces and virial for types (N,) and the edges of one configuration."""
        ...


@runtime_checkable
class SharedEngine(Engine, Protocol):
    """An engine of which several processes can evaluate a part of one configuration each."""

    @property
    def reach(self) -> int:
        """Number of cutoffs over which an atom's energy depends on others."""
        ...

    def evaluate(
        self,
        types: Tensor,
        edges: Edges,
        *,
        atomic_virials: bool = False,
        halo: Halo | None = None,
    ) -> Evaluation:
        """Energy of the halo's own atoms and what follows from it; see the eager engine."""
        ...
