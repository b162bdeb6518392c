"""Initial scalars: type embedding, modulated by a seed that each atom's environment gives."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from md_gie.model.config import DPA4Config
from md_gie.model.geometry import EdgeGeometry
from md_gie.model.inventory import environment_sizes
from md_gie.model.layers import rms
from md_gie.model.weights import Weights
from md_gie.ops import zonal_scatter


class SeedWeights(NamedTuple):
    """Folded environment seed.

    Attributes
    ----------
    first : (n_radial, Rd)
        First layer on the radial basis.
    second : (Rd, Hd)
        Second layer and the radial rows of ``g_layer1`` in one matrix.
    pairs : (T², Hd)
        Contribution of the types of an edge, row ``type_dst * T + type_src``.
    third : (Hd, Ed)
        Applied after the sum over edges.
    output : (Ed * axis, 2C)
        To the logits of scale and shift.
    strengths : (2, 1, 1)
        Exponentials of the two learned strengths.
    norms : (2, 1, C) or None
        Scales of the norms on the logits.
    """

    first: Tensor
    second: Tensor
    pairs: Tensor
    third: Tensor
    output: Tensor
    strengths: Tensor
    norms: Tensor | None


class EmbeddingWeights(NamedTuple):
    """Folded embedding: type embedding (T, C), and the environment seed if the model has one."""

    types: Tensor
    seed: SeedWeights | None


def pair_table(destination: Tensor, source: Tensor) -> Tensor:
    """Sum of two per-type tables (T, n) for every pair of types: (T², n)."""
    return (destination[:, None] + source[None, :]).reshape(-1, destination.shape[1])


class Embedding:
    """Scalar features of each atom before the first block."""

    def __init__(self, config: DPA4Config) -> None:
        self.config = config
        self.embedding_width, self.type_width, self.axis, self.radial_width, _ = environment_sizes(
            config
        )

    def fold(self, w: Weights) -> EmbeddingWeights:
        """Fold the chain of linear layers around each activation."""
        n_types = self.config.n_types
        types = w["type_embedding.adam_type_embedding"][:n_types]
        return EmbeddingWeights(types, self._fold_seed(w) if self.config.use_env_seed else None)

    def _fold_seed(self, w: Weights) -> SeedWeights:
        seed = w.at("env_seed_embedding")
        radial, source, destination = torch.split(
            seed["g_layer1.matrix"], [self.radial_width, self.type_width, self.type_width]
        )
        own = seed["env_type_embed.adam_type_embedding"][: self.config.n_types]
        norms = None
        if self.config.edge_norm:
            norms = torch.stack([w["film_scale_norm.adam_scale"], w["film_shift_norm.adam_scale"]])
        return SeedWeights(
            first=seed["rbf_proj_layer1.matrix"],
            second=seed["rbf_proj_layer2.matrix"] @ radial,
            pairs=pair_table(own @ destination, own @ source),
            third=seed["g_layer2.matrix"],
            output=seed["output_proj.matrix"],
            strengths=torch.stack(
                [w["film_scale_strength_log"], w["film_shift_strength_log"]]
            ).exp()[:, :, None],
            norms=norms,
        )

    def __call__(self, f: EmbeddingWeights, types: Tensor, geometry: EdgeGeometry) -> Tensor:
        """Scalar features (N, C) for types (N,)."""
        scalars = f.types.index_select(0, types)
        if f.seed is None:
            return scalars
        logits = torch.stack(film_logits(f.seed, geometry, self.axis))
        scale, shift = f.seed.strengths * torch.tanh(logits)
        out: Tensor = scalars * (1.0 + scale) + shift
        return out


def film_logits(f: SeedWeights, geometry: EdgeGeometry, axis: int) -> tuple[Tensor, Tensor]:
    """Logits of scale and shift (N, C) that modulate the type embedding."""
    radial = geometry.radial
    hidden = F.silu(radial.basis @ f.first) @ f.second
    hidden = F.silu(hidden + f.pairs.index_select(0, geometry.pair))
    # Seed of an edge: w/r and w v/r² (four numbers), times the learned features.
    strength = (radial.weight * geometry.inverse_r).unsqueeze(1)
    seed = torch.cat([strength, geometry.unit * strength], dim=1)
    moments = zonal_scatter(seed, hidden.unsqueeze(1), geometry.edges.row_ptr)  # (N, 4, Hd)
    moments = (moments @ f.third) * geometry.degree_factor[:, None, None]
    gram = moments.transpose(1, 2) @ moments[:, :, :axis]  # (N, Ed, axis)
    scale, shift = (gram.flatten(1) @ f.output).chunk(2, dim=1)
    if f.norms is not None:
        scale, shift = rms(scale) * f.norms[0], rms(shift) * f.norms[1]
    return scale, shift
