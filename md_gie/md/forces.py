"""From positions to energy and forces through neighbour list and engine, guarded at every call."""

import math

import torch
from torch import Tensor

from md_gie.engine.base import Engine, Evaluation
from md_gie.engine.checks import check_contacts
from md_gie.engine.guards import REMEDY
from md_gie.errors import StructureError
from md_gie.md.config import GuardsTable
from md_gie.md.timing import Clock
from md_gie.neighbors import NeighborCache


class GuardedForces:
    """An ``Evaluate`` for the integrators that refuses what is not physical.

    Parameters
    ----------
    engine : Engine
    cache : NeighborCache
        On the engine's device, with its cutoff.
    types : (N,) int64
        From ``engine.types_of``.
    pbc : three bools
    guards : GuardsTable
    clock : Clock
        Sections ``neighbours`` and ``model`` are added to.

    Attributes
    ----------
    n_edges : int
        Edges of the last call.
    closest_A : float
        Distance of its closest pair; the cutoff if no pair is closer.
    last_positions, last_cell : Tensor
        What it was given.
    """

    def __init__(
        self,
        engine: Engine,
        cache: NeighborCache,
        types: Tensor,
        pbc: tuple[bool, bool, bool],
        guards: GuardsTable,
        clock: Clock,
    ) -> None:
        self.cache = cache
        self.n_edges = 0
        self.closest_A = cache.cutoff
        self.last_positions: Tensor | None = None
        self.last_cell: Tensor | None = None
        self._engine = engine
        self._types = types
        self._pbc = pbc
        self._guards = guards
        self._clock = clock

    def __call__(self, positions: Tensor, cell: Tensor) -> Evaluation:
        """Evaluate positions (N, 3) and cell (3, 3), Å.

        Raises
        ------
        StructureError
            Atoms closer than ``min_distance_A``, or energy or forces that are not finite; both
            name the atoms.
        """
        self.last_positions, self.last_cell = positions, cell
        with self._clock.section("neighbours"):
            edges = self.cache.update(positions, cell, self._pbc)
            self.n_edges = edges.n_edges
            closest = check_contacts(
                edges,
                self.cache.coincident_pair(),
                self._guards.min_distance_A,
                "guards.min_distance_A",
            )
            self.closest_A = min(closest, self.cache.cutoff)
        with self._clock.section("model"):
            result = self._engine.evaluate(self._types, edges)
            _check_finite(result)
        return result


def _check_finite(result: Evaluation) -> None:
    # One number decides, so that a GPU is waited for once.
    if math.isfinite((result.energy + result.forces.abs().sum()).item()):
        return
    bad = torch.nonzero(~torch.isfinite(result.forces).all(1)).flatten().tolist()
    where = f"forces on {len(bad)} atoms ({_some(bad)})" if bad else "forces on no atom"
    raise StructureError(
        f"energy is {result.energy.item():g} eV and {where} are not finite; the configuration is "
        f"outside what the model knows: {REMEDY}",
        atoms=bad,
    )


def _some(atoms: list[int]) -> str:
    shown = ", ".join(map(str, atoms[:5]))
    return f"{shown}, …" if len(atoms) > 5 else shown
