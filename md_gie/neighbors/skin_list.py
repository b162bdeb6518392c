"""What a build leaves behind: the list within cutoff + skin, and where the atoms then were."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from md_gie.neighbors.build import Pairs
from md_gie.neighbors.geometry import Bools, Floats
from md_gie.ops import Edges

Extents = tuple[int, int, int]


@dataclass(frozen=True)
class SkinList:
    """Edges within cutoff + skin, sorted by (destination, source, image); closed under reversal.

    ``images`` index a table of lattice vectors, which holds any shift without overflow and
    spares the product with the cell. Since each edge's reverse is listed too, ``row_ptr`` also
    tells where the edges of a source lie in ``order`` (edge numbers grouped by source).
    """

    row_ptr: Tensor  # (N+1,) int32
    dst: Tensor  # (M,) int32
    src: Tensor  # (M,) int32
    images: Tensor  # (M,) int32
    order: Tensor  # (M,) int32


@dataclass(frozen=True)
class Anchor:
    """Configuration at the last build."""

    positions: Tensor  # (N, 3) float64, Å, as given
    cell: Floats
    pbc: Bools
    wrapped: Tensor  # (N, 3) float64, Å, inside the box
    wraps: Tensor  # (N, 3) float64 whole numbers; follows a caller that wraps positions
    extents: Extents  # largest shift along each axis


class StepPass(Protocol):
    """The work of one step on one kind of device."""

    def pack(
        self,
        pairs: Pairs,
        wrapped: Tensor,
        table: Floats,
        extents: Extents,
        radius: float,
    ) -> SkinList:
        """Sort pairs into a list and drop those not closer than ``radius`` (Å)."""
        ...

    def step(
        self,
        positions: Tensor,
        anchor: Anchor,
        listed: SkinList,
        cell: Floats,
        deformation: Floats,
        limit: float,
        table: Floats,
        cutoff: float,
    ) -> tuple[Edges, int | Tensor] | None:
        """:meth:`compact` of positions (N, 3); None if one is more than ``limit`` (Å) from anchor.

        ``anchor.wraps`` is updated where the caller has moved an atom by lattice vectors.
        """
        wrapped = self.track(positions, anchor, cell, deformation, limit)
        return None if wrapped is None else self.compact(listed, wrapped, table, cutoff)

    def track(
        self, positions: Tensor, anchor: Anchor, cell: Floats, deformation: Floats, limit: float
    ) -> Tensor | None:
        """Wrap positions (N, 3); None if an atom is more than ``limit`` (Å) from its anchor."""
        ...

    def compact(
        self, listed: SkinList, wrapped: Tensor, table: Floats, cutoff: float
    ) -> tuple[Edges, int | Tensor]:
        """Edges within the cutoff, and the number of a listed coincident pair or -1."""
        ...
