"""Gated residual in plain PyTorch: any order m, differentiable twice."""

import torch
import torch.nn.functional as F
from torch import Tensor


def gated_residual(streams: list[Tensor], mixed: list[Tensor], gate: Tensor) -> list[Tensor]:
    """See :func:`md_gie.ops.gate.gated_residual`."""
    width = gate.shape[1]
    gates = torch.sigmoid(mixed[0][:, :, :width] @ gate)  # (F, E, L Cf)
    out = []
    for m, (y, z) in enumerate(zip(streams, mixed, strict=True)):
        if m == 0:
            scalar, rest = torch.split(z, [width, z.shape[2] - width], dim=2)
            out.append(y + torch.cat([F.silu(scalar), rest * gates], dim=2))
        else:
            # Gates of the degrees m..L, the same for both signs of the order.
            kept = gates[:, :, (m - 1) * width :]
            out.append(y + z * torch.cat([kept, kept], dim=2))
    return out
