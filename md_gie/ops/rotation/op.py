"""Rotation into and out of edge frames: the only importable face."""

from torch import Tensor

from md_gie.ops.edges import Edges
from md_gie.ops.rotation import reference


def rotate_in(
    nodes: Tensor,
    frames: list[Tensor],
    radial: Tensor,
    basis: Tensor | None,
    edges: Edges,
    *,
    order: int,
    mode: str,
    n_focus: int,
) -> list[Tensor]:
    """Gather source features into the edge frames and apply the radial modulation.

    Parameters
    ----------
    nodes : (N, D, Hh) floating
        Node features in packed rows of degree 0..L.
    frames : list of (E, K, 2l+1)
        Wigner-D rows of the degrees 0..L.
    radial : (E, n)
        Radial modulation; see :func:`md_gie.ops.rotation.reference.modulate`.
    basis : (q, Hh) or None
        Channel basis of the ranks.
    edges : Edges
        Connectivity.
    order : int
        Largest order kept.
    mode : str
        ``none``, ``rank`` or ``channel``.
    n_focus : int
        Focus streams F; ``Hh = F Cf``.

    Returns
    -------
    list of (F, E, S nl Cf)
        One tensor per order m: S is 1 for m = 0 and 2 (-m, +m) above, nl the degrees m..L.
    """
    features = reference.rotate_in(nodes, frames, edges, order)
    return reference.to_streams(reference.modulate(features, radial, basis, mode), n_focus)


def rotate_out(
    streams: list[Tensor], weights: Tensor, frames: list[Tensor], edges: Edges
) -> Tensor:
    """Rotate edge features back, weight them and sum over each destination's edges.

    Arguments and result as in :func:`md_gie.ops.rotation.reference.rotate_out`.
    """
    return reference.rotate_out(streams, weights, frames, edges)
