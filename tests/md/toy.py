"""A small analytic potential with the engine protocol: Lennard-Jones, smooth at its cutoff."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from md_gie.engine.base import Evaluation
from md_gie.errors import StructureError
from md_gie.neighbors import Edges

DEPTH, SIZE = 0.0104, 3.4  # argon, eV and Å


class ToyEngine:
    """Argon; ``(1 - (r/rc)²)³`` takes the pair energy to zero at the cutoff, forces included."""

    name = "toy"
    species = ("Ar",)
    cutoff = 6.0
    model_hash = "0"
    dtype = torch.float64

    def __init__(self, device: str = "cpu") -> None:
        self.device = torch.device("cpu" if device == "auto" else device)
        self.n_calls = 0
        self.poison_at = -1

    def types_of(self, numbers: Sequence[int]) -> Tensor:
        unknown = [index for index, number in enumerate(numbers) if number != 18]
        if unknown:
            raise StructureError(f"atoms {unknown} are no argon")
        return torch.zeros(len(numbers), dtype=torch.int64, device=self.device)

    def evaluate(self, types: Tensor, edges: Edges, *, atomic_virials: bool = False) -> Evaluation:
        self.n_calls += 1
        square = edges.vectors.square().sum(1)
        x = square / self.cutoff**2
        window, slope = (1 - x) ** 3, -6 * (1 - x) ** 2 / self.cutoff**2
        s6 = (SIZE**2 / square) ** 3
        pair = 4 * DEPTH * (s6 * s6 - s6)
        by_r = 4 * DEPTH * (-12 * s6 * s6 + 6 * s6) / square
        # Half of each pair belongs to either of its two directed edges.
        gradient = 0.5 * (by_r * window + pair * slope)[:, None] * edges.vectors
        forces = _rows(gradient, edges.row_ptr) - _rows(
            gradient[edges.source_order.long()], edges.source_ptr
        )
        energies = _rows(0.5 * (pair * window)[:, None], edges.row_ptr)[:, 0]
        if self.n_calls == self.poison_at:
            forces = forces.clone()
            forces[[3, 5]] = torch.nan
        return Evaluation(energies.sum(), forces, -edges.vectors.T @ gradient, energies)


def _rows(values: Tensor, pointers: Tensor) -> Tensor:
    sums: Any = torch.segment_reduce(values, "sum", offsets=pointers.long(), initial=0.0)
    return sums


def load_toy(model: str, *, device: str = "auto", **options: Any) -> ToyEngine:
    return ToyEngine(device)
