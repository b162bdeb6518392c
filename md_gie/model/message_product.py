"""Message-node product: what an atom received, multiplied with what it is, on the rotation grid."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from md_gie.model.config import DPA4Config
from md_gie.model.grid import GridProduct, GridWeights
from md_gie.model.layers import expand_rows
from md_gie.model.weights import Weights


class MessageProductWeights(NamedTuple):
    """Folded product.

    Attributes
    ----------
    expand : (K, D, Cf, Cf), contract : (K, D, Cf, Cf)
        To the frames and back.
    gate : (F, 2 Cf, Cf)
        Gate from the scalars of both factors.
    scale : (F, 1, Cf)
        Scale of the result.
    grid : GridWeights
    """

    expand: Tensor
    contract: Tensor
    gate: Tensor
    scale: Tensor
    grid: GridWeights


class MessageProduct:
    """Grid product of the summed messages with the atom's own features, per focus stream."""

    def __init__(self, config: DPA4Config, degree: int) -> None:
        self.config = config
        self.degree = degree
        self.grid = GridProduct(degree, min(config.kmax, degree))

    def fold(self, w: Weights) -> MessageProductWeights:
        """Split the per-degree maps by frame."""
        width, frames = self.config.focus_width, self.grid.n_frames
        expand = expand_rows(w["frame_expand.weight"], self.degree)
        contract = expand_rows(w["frame_contract.weight"], self.degree)
        gate = w["scalar_gate.weight"].reshape(2 * width, self.config.n_focus, width)
        return MessageProductWeights(
            expand=expand.reshape(-1, width, frames, width).permute(2, 0, 1, 3),
            contract=contract.reshape(-1, frames, width, width).transpose(0, 1),
            gate=gate.transpose(0, 1),
            scale=w["residual_scale"].unsqueeze(1),
            grid=self.grid.fold(w),
        )

    def __call__(self, f: MessageProductWeights, received: Tensor, own: Tensor) -> Tensor:
        """Product of two states (D, N, Hh); the caller adds it to ``received``."""
        rows, n_atoms, hidden = received.shape
        width, n_focus = self.config.focus_width, self.config.n_focus
        pair = torch.stack([received, own], dim=1).reshape(rows, -1, width)  # (D, 2 N F, Cf)
        fields = pair.unsqueeze(0) @ f.expand
        fields = fields.reshape(self.grid.n_frames, rows, 1, 2, n_atoms * hidden)
        product = self.grid(f.grid, fields)
        product = product.reshape(self.grid.n_frames, rows, n_atoms * n_focus, width)
        scalars = pair[0].reshape(2, n_atoms, n_focus, width).transpose(1, 2)  # (2, F, N, Cf)
        gate = torch.sigmoid(torch.cat([scalars[0], scalars[1]], dim=2) @ f.gate)  # (F, N, Cf)
        gate = gate.transpose(0, 1).reshape(-1, width)
        direct = F.silu(scalars[0]) * scalars[1]
        direct = direct.transpose(0, 1).reshape(-1, width) @ f.contract[0, 0]
        out = ((product * gate) @ f.contract).sum(0)  # (D, N F, Cf)
        out = torch.cat([(out[0] + direct).unsqueeze(0), out[1:]])
        out = out.reshape(rows, n_atoms, n_focus, width) * f.scale.squeeze(1)
        return out.reshape(rows, n_atoms, hidden)
