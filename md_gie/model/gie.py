"""Geometric initial embedding: equivariant features of each atom before the first block."""

from typing import NamedTuple

import torch
from torch import Tensor

from md_gie.model.config import DPA4Config
from md_gie.model.geometry import EdgeGeometry
from md_gie.model.layers import expand_rows
from md_gie.model.radial import fold_last_layer
from md_gie.model.weights import Weights
from md_gie.ops import zonal_scatter


class GIEWeights(NamedTuple):
    """Last radial layer for each row of degree 1 and higher: (D - 1, W, C)."""

    projection: Tensor


class GeometricInitialEmbedding:
    r"""Sums of zonal harmonics times radial features, straight into the node layout.

    .. math:: x_{i,(l,m),c} = d_i \sum_{e \to i} B_{lm}(\hat v_e)\, R_{e,l,c}

    The last radial layer is linear, so the sum runs over its input, one hidden vector shared by
    all degrees, and the layer acts once per atom. Without an environment seed in the model the
    rows of degree 1 and higher are zero.
    """

    def __init__(self, config: DPA4Config) -> None:
        self.config = config

    def fold(self, w: Weights) -> GIEWeights:
        """Give each row the radial layer of its degree."""
        last = fold_last_layer(w, self.config).transpose(0, 1)  # (lmax + 1, W, C)
        return GIEWeights(expand_rows(last, self.config.lmax)[1:])

    def __call__(self, f: GIEWeights, scalars: Tensor, geometry: EdgeGeometry) -> Tensor:
        """Node state (D, N, C) with the scalars (N, C) in row 0."""
        n_atoms, channels = scalars.shape
        if not self.config.use_env_seed:
            rest = scalars.new_zeros((self.config.lmax + 1) ** 2 - 1, n_atoms, channels)
        else:
            coupling = torch.cat([rows[:, 0] for rows in geometry.frames[1:]], dim=1)
            hidden = geometry.radial.hidden.unsqueeze(1)
            sums = zonal_scatter(coupling, hidden, geometry.edges.row_ptr)  # (N, D, W)
            rest = sums.transpose(0, 1)[1:] @ f.projection
            rest = rest * geometry.degree_factor[:, None]
        return torch.cat([scalars.unsqueeze(0), rest])
