"""Checks on what enters an engine."""

import torch

from md_gie.errors import StructureError
from md_gie.ops import Edges

MIN_DISTANCE = 0.2
"""Å. The shortest bond there is has 0.74 Å (H-H); atoms closer than this overlap."""


def check_contacts(edges: Edges, coincident: tuple[int, int] | None = None) -> None:
    """Refuse a configuration with atoms on top of each other.

    Parameters
    ----------
    edges : Edges
        Edges of the configuration.
    coincident : pair of int, optional
        Atoms at the same place, which have no edge
        (:meth:`md_gie.neighbors.NeighborCache.coincident_pair`).

    Raises
    ------
    StructureError
        If two atoms are closer than :data:`MIN_DISTANCE`; the message names them and the distance.
    """
    if coincident is not None:
        _refuse(*coincident, 0.0)
    if edges.n_edges == 0:
        return
    x, y, z = edges.vectors.unbind(1)
    # Column by column: a sum over rows of three takes twice the time.
    closest = torch.addcmul(torch.addcmul(x * x, y, y), z, z).min(0)
    distance = float(closest.values) ** 0.5
    if distance < MIN_DISTANCE:
        edge = int(closest.indices)
        _refuse(int(edges.dst[edge]), int(edges.src[edge]), distance)


def _refuse(first: int, second: int, distance: float) -> None:
    what = f"atoms {min(first, second)} and {max(first, second)} are"
    if first == second:
        what = f"atom {first} and its own periodic image are"
    raise StructureError(
        f"{what} {distance:.3g} Å apart; distances of at least {MIN_DISTANCE} Å are possible. "
        "Remove the duplicate, or start from a structure without overlaps",
        atoms=(first, second),
        distance=distance,
    )
