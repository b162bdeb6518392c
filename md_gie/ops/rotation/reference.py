"""Rotation into and out of edge frames in plain PyTorch: any order, differentiable twice.

Edge features in the frame are kept as one tensor per order m, ``(F, E, rows * Cf)`` with the rows
l = 0..L for m = 0, and the rows -m for l = m..L followed by +m for l = m..L for m > 0.
"""

import torch
from torch import Tensor

from md_gie.ops.csr import gather_sources, sum_rows
from md_gie.ops.edges import Edges


def rotate_in(nodes: Tensor, frames: list[Tensor], edges: Edges, order: int) -> list[Tensor]:
    """Gather source features into the edge frames: (N, D, Hh) to one (E, S, nl, Hh) per order.

    S is 1 for m = 0 and 2 (-m, +m) for m > 0; nl counts the degrees from m up.
    """
    degrees = []
    for degree, frame in enumerate(frames):
        block = nodes[:, degree * degree : (degree + 1) ** 2]
        block = gather_sources(block, edges.src, edges.source_ptr, edges.source_order)
        degrees.append(frame[:, : 2 * min(order, degree) + 1] @ block)  # (E, K, Hh)
    out = [torch.stack([rows[:, 0] for rows in degrees], dim=1).unsqueeze(1)]
    for m in range(1, order + 1):
        signs = [
            torch.stack([rows[:, column] for rows in degrees[m:]], dim=1)
            for column in (2 * m - 1, 2 * m)
        ]
        out.append(torch.stack(signs, dim=1))
    return out


def modulate(
    features: list[Tensor], radial: Tensor, basis: Tensor | None, mode: str
) -> list[Tensor]:
    """Apply the radial modulation to the features of :func:`rotate_in`.

    Parameters
    ----------
    features : list of (E, S, nl, Hh)
        One tensor per order.
    radial : (E, (L+1) Hh), (E, n q) or (E, n Hh)
        Factors per degree and channel (mode ``none``), or kernel entries (l_in, l_out) of every
        order, in the order of the checkpoint, of rank q (``rank``) or per channel (``channel``).
    basis : (q, Hh) or None
        Channel basis of the ranks.
    mode : str
        ``none``, ``rank`` or ``channel``.
    """
    n_edges, _, rows, hidden = features[0].shape
    if mode == "none":
        factors = radial.reshape(n_edges, 1, rows, hidden)
        return [y * factors[:, :, m:] for m, y in enumerate(features)]
    per_entry = hidden if basis is None else basis.shape[0]
    out, offset = [], 0
    for y in features:
        nl = y.shape[2]
        size = nl * nl * per_entry
        kernel = radial[:, offset : offset + size].reshape(n_edges, nl, nl, per_entry)
        offset += size
        if basis is None:
            out.append((kernel.unsqueeze(1) * y.unsqueeze(3)).sum(2))
            continue
        mixed = [
            basis[r] * (kernel[..., r].transpose(1, 2).unsqueeze(1) @ y)
            for r in range(basis.shape[0])
        ]
        out.append(sum(mixed[1:], mixed[0]))
    return out


def to_streams(features: list[Tensor], n_focus: int) -> list[Tensor]:
    """Split hidden channels into focus streams: (E, S, nl, F Cf) to (F, E, S nl Cf)."""
    out = []
    for y in features:
        n_edges, signs, nl, hidden = y.shape
        width = hidden // n_focus
        y = y.reshape(n_edges, signs * nl, n_focus, width).permute(2, 0, 1, 3)
        out.append(y.reshape(n_focus, n_edges, signs * nl * width))
    return out


def rotate_out(
    streams: list[Tensor], weights: Tensor, frames: list[Tensor], edges: Edges
) -> Tensor:
    """Rotate edge features back, weight them and sum over the edges of each destination.

    Parameters
    ----------
    streams : list of (F, E, S nl Cf)
        One tensor per order.
    weights : (E, F, A)
        Weight of each focus stream and head; a head owns ``Cf / A`` channels.
    frames : list of (E, K, 2l+1)
        Wigner-D rows of the degrees 0..L.

    Returns
    -------
    (N, D, F Cf)
    """
    n_focus, n_edges, _ = streams[0].shape
    rows = len(frames)
    width = streams[0].shape[2] // rows
    heads = weights.shape[2]
    scale = weights.unsqueeze(3).expand(-1, -1, -1, width // heads)
    scale = scale.reshape(n_edges, 1, n_focus * width)
    orders = []
    for m, y in enumerate(streams):
        y = y.reshape(n_focus, n_edges, 1 if m == 0 else 2, rows - m, width)
        orders.append(y.permute(1, 2, 3, 0, 4).flatten(3))  # (E, S, nl, Hh)
    out = []
    for degree, frame in enumerate(frames):
        kept = [orders[0][:, 0, degree]]
        for m in range(1, min(degree, len(streams) - 1) + 1):
            kept += [orders[m][:, 0, degree - m], orders[m][:, 1, degree - m]]
        message = frame[:, : len(kept)].transpose(1, 2) @ (torch.stack(kept, dim=1) * scale)
        out.append(sum_rows(message, edges.row_ptr, edges.dst))
    return torch.cat(out, dim=1)
