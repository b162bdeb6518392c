"""Checks on what enters an engine."""

import math

import torch

from md_gie.errors import StructureError
from md_gie.ops import Edges

MIN_DISTANCE = 0.2
"""Å. The shortest bond there is has 0.74 Å (H-H); atoms closer than this overlap."""


def check_contacts(
    edges: Edges,
    coincident: tuple[int, int] | None = None,
    least: float = MIN_DISTANCE,
    setting: str = "",
) -> float:
    """Refuse a configuration with atoms on top of each other.

    Parameters
    ----------
    edges : Edges
        Edges of the configuration.
    coincident : pair of int, optional
        Atoms at the same place, which have no edge
        (:meth:`md_gie.neighbors.NeighborCache.coincident_pair`).
    least : float, Å
        Distance below which atoms are refused.
    setting : str
        Where ``least`` is set, for the message.

    Returns
    -------
    float, Å
        Distance of the closest pair; infinity without edges.

    Raises
    ------
    StructureError
        If two atoms are closer than ``least``; the message names them and the distance.
    """
    if coincident is not None:
        raise _overlap(*coincident, 0.0, least, setting)
    if edges.n_edges == 0:
        return math.inf
    x, y, z = edges.vectors.unbind(1)
    # Column by column: a sum over rows of three takes twice the time.
    closest = torch.addcmul(torch.addcmul(x * x, y, y), z, z).min(0)
    distance = math.sqrt(float(closest.values))
    if distance < least:
        edge = int(closest.indices)
        raise _overlap(int(edges.dst[edge]), int(edges.src[edge]), distance, least, setting)
    return distance


def _overlap(
    first: int, second: int, distance: float, least: float, setting: str
) -> StructureError:
    what = f"atoms {min(first, second)} and {max(first, second)} are"
    if first == second:
        what = f"atom {first} and its own periodic image are"
    where = f" ({setting})" if setting else ""
    return StructureError(
        f"{what} {distance:.3g} Å apart; distances of at least {least:g} Å are possible{where}. "
        "Remove the duplicate, start from a structure without overlaps, or take a shorter timestep",
        atoms=(first, second),
        distance=distance,
    )
