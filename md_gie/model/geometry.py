"""Geometry of the edges of one configuration: everything that a model derives from edge vectors."""

from typing import NamedTuple

import torch
from torch import Tensor

from md_gie.model.config import DPA4Config
from md_gie.model.radial import RadialFeatures, RadialNetwork, RadialWeights
from md_gie.model.weights import Weights
from md_gie.model.wigner import FrameTables, edge_frames, frame_tables
from md_gie.ops import Edges
from md_gie.ops.csr import sum_rows
from md_gie.ops.rotation import pack_frames


class EdgeGeometry(NamedTuple):
    """Per-edge quantities that all boxes share.

    Attributes
    ----------
    edges : Edges
        Connectivity.
    pair : (E,) int64
        Type of destination times number of types plus type of source.
    unit : (E, 3)
        Edge directions.
    inverse_r : (E,) 1/Å
        Inverse lengths.
    radial : RadialFeatures
        Envelope, basis and hidden layer.
    degree_factor : (N,)
        Inverse root of each atom's sum of squared envelopes plus a floor.
    frames : list of (E, K, 2l+1)
        Wigner-D rows of :func:`md_gie.model.wigner.edge_frames`.
    packed : (E, 3 (D - 1)) or None
        The same rows side by side, if the fused kernels may serve; they have a first derivative
        only.
    """

    edges: Edges
    pair: Tensor
    unit: Tensor
    inverse_r: Tensor
    radial: RadialFeatures
    degree_factor: Tensor
    frames: list[Tensor]
    packed: Tensor | None


class GeometryWeights(NamedTuple):
    """Folded radial network and the constants of the frames."""

    radial: RadialWeights
    frames: FrameTables


class Geometry:
    """From edge vectors to lengths, directions, radial features and frames."""

    epsilon = 1e-7  # added in quadrature to every length, as the format does

    def __init__(self, config: DPA4Config) -> None:
        self.config = config
        self.radial = RadialNetwork(config)
        self.order = max(config.orders, default=0)
        self.tables = frame_tables(config.lmax, self.order)
        self.floor = 0.25 if config.version >= 1.1 else self.epsilon

    def fold(self, w: Weights) -> GeometryWeights:
        """Collect parameters and tables."""
        tables = FrameTables(
            [w.constant(table) for table in self.tables.projections],
            [w.constant(table) for table in self.tables.scales],
        )
        return GeometryWeights(self.radial.fold(w), tables)

    def __call__(
        self, f: GeometryWeights, types: Tensor, edges: Edges, vectors: Tensor, *, fused: bool
    ) -> EdgeGeometry:
        """Evaluate for types (N,) and edge vectors (E, 3) in Å; see ``packed`` for ``fused``."""
        dtype = f.radial.first.dtype
        vectors = vectors.double()
        r = torch.sqrt(vectors.square().sum(1) + self.epsilon**2)
        inverse_r = 1.0 / r
        unit = (vectors * inverse_r.unsqueeze(1)).to(dtype)
        radial = self.radial(f.radial, r)
        degree = sum_rows(radial.weight.square(), edges.row_ptr, edges.dst)
        pair = types.index_select(0, edges.dst) * self.config.n_types
        pair = pair + types.index_select(0, edges.src)
        frames = edge_frames(unit, f.frames, self.config.lmax, self.order)
        return EdgeGeometry(
            edges=edges,
            pair=pair,
            unit=unit,
            inverse_r=inverse_r.to(dtype),
            radial=radial,
            degree_factor=torch.rsqrt(degree + self.floor),
            frames=frames,
            packed=pack_frames(frames) if fused and self.order == 1 else None,
        )
