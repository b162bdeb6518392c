"""Feed-forward networks on node states: gated, and with a product on a grid."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from md_gie.model.config import GridOperation
from md_gie.model.grid import GridProduct, GridWeights
from md_gie.model.layers import expand_rows, row_degrees
from md_gie.model.weights import Weights


class GridFFNWeights(NamedTuple):
    """Folded grid network.

    Attributes
    ----------
    fields : (K, D, C, 2 B)
        From the state to the two factors of the product, projections included.
    scalars : (C, 2 G)
        From the scalar row to the two scalars that drive gate and direct path.
    gate : (2 G, G)
    out : (B, G) or None
        Channel projection of the product.
    last : (K, D, G, C)
        Back to the state's channels.
    grid : GridWeights
    """

    fields: Tensor
    scalars: Tensor
    gate: Tensor
    out: Tensor | None
    last: Tensor
    grid: GridWeights


class GridFFN:
    """Network whose nonlinearity is a product of two fields on the sphere or rotation grid.

    Parameters
    ----------
    degree, channels, width : int
        Degree of the state, its channels C and the network's hidden channels G.
    kmax : int
        Largest frame order; 0 on the sphere.
    operation : str
        How the factors are made: ``product``, ``mlp`` or ``branch`` (of one branch).
    sphere : bool
        Normalise as a function on the sphere instead of the rotation group.
    scalar_only : bool
        Compute only row 0 of the result, as a read-out needs.
    """

    def __init__(
        self,
        degree: int,
        channels: int,
        width: int,
        kmax: int,
        operation: GridOperation,
        *,
        sphere: bool = False,
        scalar_only: bool = False,
    ) -> None:
        self.degree, self.channels, self.width = degree, channels, width
        self.operation = operation
        self.scalar_only = scalar_only
        self.grid = GridProduct(degree, kmax)
        norm = torch.ones((degree + 1) ** 2, dtype=torch.float64)
        if sphere:
            norm /= (degree + 1) ** 0.5
        # The scalar of a product needs no grid: it is a dot product with weights 1/(2l+1).
        dot = 1.0 / (2.0 * row_degrees(degree).double() + 1.0) if scalar_only else 1.0
        factors = (norm * dot).repeat(self.grid.n_frames, 1)
        factors[1:, 0] = 0.0  # frames above the degree do not exist
        self.left_factors = factors

    def fold(self, w: Weights) -> GridFFNWeights:
        """Multiply the channel projections of both factors into the first linear map."""
        width, frames = self.width, self.grid.n_frames
        first = expand_rows(w["so3_linear_1.weight"], self.degree)
        first = first.reshape(-1, self.channels, 2, frames, width).permute(2, 3, 0, 1, 4)
        left, right = first  # each (K, D, C, G)
        scalars = torch.cat([left[0, 0], right[0, 0]], dim=1)
        out = None
        if self.operation != "product":
            both = torch.cat([left, right], dim=-1)
            op = w.at("act.grid_op")
            if self.operation == "mlp":
                left, right = both @ op["left_proj.weight"], both @ op["right_proj.weight"]
            else:
                left, right = left @ op["left_proj.weight"], right @ op["right_proj.weight"]
            out = op["out_proj.weight"]
        left = left * w.constant(self.left_factors)[:, :, None, None]
        last = expand_rows(w["so3_linear_2.weight"], self.degree)
        return GridFFNWeights(
            fields=torch.cat([left, right], dim=-1),
            scalars=scalars,
            gate=w["act.scalar_gate.weight"],
            out=out,
            last=last.reshape(-1, frames, width, self.channels).transpose(0, 1),
            grid=self.grid.fold(w),
        )

    def __call__(self, f: GridFFNWeights, x: Tensor) -> Tensor:
        """State (D, N, C) to (D, N, C), or to the scalar row (1, N, C)."""
        fields = x.unsqueeze(0) @ f.fields  # (K, D, N, 2 B)
        scalars = x[0] @ f.scalars
        left, right = scalars.chunk(2, dim=1)
        gate = torch.sigmoid(scalars @ f.gate)
        direct = F.silu(left) * right
        if self.scalar_only:
            a, b = fields.chunk(2, dim=-1)
            product = (a * b).sum((0, 1))
            if f.out is not None:
                product = product @ f.out
            return ((product * gate + direct) @ f.last[0, 0]).unsqueeze(0)
        frames, rows, n_atoms, both = fields.shape
        product = self.grid(f.grid, fields.reshape(frames, rows, n_atoms, 2, both // 2))
        if f.out is not None:
            product = product @ f.out
        out = ((product * gate) @ f.last).sum(0)
        return torch.cat([(out[0] + direct @ f.last[0, 0]).unsqueeze(0), out[1:]])


class GatedFFNWeights(NamedTuple):
    """Folded gated network: first (D, C, G or 2 G), gate (G, L G) or None, last (D, G, C)."""

    first: Tensor
    gate: Tensor | None
    last: Tensor


class GatedFFN:
    """Network whose nonlinearity scales each degree and channel by a gate from the scalars.

    With ``linear_unit`` half of the hidden channels are values and half drive the gates.
    """

    def __init__(self, degree: int, width: int, *, linear_unit: bool) -> None:
        self.degree, self.width, self.linear_unit = degree, width, linear_unit

    def fold(self, w: Weights) -> GatedFFNWeights:
        """Expand the per-degree maps to rows."""
        gate = w["act.gate_linear.weight"] if self.degree else None
        return GatedFFNWeights(
            expand_rows(w["so3_linear_1.weight"], self.degree),
            gate,
            expand_rows(w["so3_linear_2.weight"], self.degree),
        )

    def __call__(self, f: GatedFFNWeights, x: Tensor) -> Tensor:
        """State (D, N, C) to (D, N, C)."""
        hidden = x @ f.first
        if self.linear_unit:
            value, source = hidden.chunk(2, dim=-1)
            scalar = value[:1] * F.silu(source[:1])
        else:
            value = source = hidden
            scalar = F.silu(value[:1])
        if f.gate is None:
            return scalar @ f.last
        gates = torch.sigmoid(source[0] @ f.gate).reshape(-1, self.degree, self.width)
        gates = expand_rows(gates.transpose(0, 1), self.degree, first=1)
        return torch.cat([scalar, value[1:] * gates]) @ f.last


FFN = GridFFN | GatedFFN
FFNWeights = GridFFNWeights | GatedFFNWeights
