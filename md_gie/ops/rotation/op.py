"""Rotation into and out of edge frames: choice of implementation; the only importable face."""

import torch
from torch import Tensor

from md_gie.ops import launch
from md_gie.ops.edges import Edges
from md_gie.ops.rotation import packed as fused
from md_gie.ops.rotation import reference


def pack_frames(frames: list[Tensor]) -> Tensor:
    """Frames of the degrees 1..L, flattened side by side: (E, 3 (D - 1)) for ``|m| <= 1``."""
    return torch.cat([frame.flatten(1) for frame in frames[1:]], dim=1)


def is_fused(tensor: Tensor, frames: list[Tensor], order: int) -> bool:
    """Whether the fused kernels serve this device, dtype and order."""
    compiled = tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64)
    served = compiled or (launch.is_served(tensor) and tensor.dtype != torch.bfloat16)
    return served and order == 1 and len(frames) > 1


def rotate_in(
    nodes: Tensor,
    frames: list[Tensor],
    packed: Tensor | None,
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
    packed : (E, 3 (D - 1)) or None
        :func:`pack_frames` of the same frames: allows the fused kernels, which have a first
        derivative only. None takes the reference, differentiable to any order.
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
    if packed is not None and mode != "channel" and is_fused(nodes, frames, order):
        y0, y1 = fused.rotate_in(
            nodes, packed, radial, basis, edges.src, edges.source_ptr, edges.source_order, n_focus
        )
        return [y0.flatten(2), y1.flatten(2)]
    features = reference.rotate_in(nodes, frames, edges, order)
    return reference.to_streams(reference.modulate(features, radial, basis, mode), n_focus)


def rotate_out(
    streams: list[Tensor],
    weights: Tensor,
    frames: list[Tensor],
    packed: Tensor | None,
    edges: Edges,
) -> Tensor:
    """Rotate edge features back, weight them and sum over each destination's edges.

    Arguments and result as in :func:`md_gie.ops.rotation.reference.rotate_out`; ``packed`` as in
    :func:`rotate_in`.
    """
    served = packed is not None and is_fused(weights, frames, len(streams) - 1)
    if packed is not None and served and (weights.is_cuda or weights.shape[2] == 1):
        n_focus, n_edges, columns = streams[0].shape
        degrees = len(frames)
        y0 = streams[0].reshape(n_focus, n_edges, degrees, columns // degrees)
        y1 = streams[1].reshape(n_focus, n_edges, 2, degrees - 1, columns // degrees)
        out: Tensor = fused.rotate_out(y0, y1, weights.flatten(1), packed, edges.row_ptr)
        return out
    return reference.rotate_out(streams, weights, frames, edges)
