"""One interaction block: SO(2) convolution, then feed-forward networks, each with its norms."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from md_gie.model.config import DPA4Config
from md_gie.model.ffn import FFN, FFNWeights, GatedFFN, GridFFN
from md_gie.model.geometry import EdgeGeometry
from md_gie.model.layers import EquivariantNorm, NormWeights
from md_gie.model.so2 import SO2Convolution, SO2Weights
from md_gie.model.weights import Weights


class BlockWeights(NamedTuple):
    """Folded block; a norm that the model does not have is None."""

    convolution: SO2Weights
    pre_convolution: NormWeights | None
    post_convolution: NormWeights | None
    networks: list[FFNWeights]
    pre_network: list[NormWeights | None]
    post_network: list[NormWeights | None]


def block_ffn(config: DPA4Config, degree: int) -> FFN:
    """Feed-forward network of a block of this degree."""
    if config.ffn_kind in ("so3", "s2"):
        sphere = config.ffn_kind == "s2"
        kmax = 0 if sphere else min(config.kmax, degree)
        return GridFFN(
            degree, config.channels, config.ffn_width, kmax, config.ffn_operation, sphere=sphere
        )
    return GatedFFN(degree, config.ffn_width, linear_unit=config.ffn_kind == "glu")


class InteractionBlock:
    """Block number ``block`` of a model."""

    def __init__(self, config: DPA4Config, block: int) -> None:
        self.degree = config.degrees[block]
        self.sandwich = config.sandwich_norm
        self.convolution = SO2Convolution(config, block)
        self.networks = [block_ffn(config, self.degree) for _ in range(config.ffn_blocks)]
        self.norm = EquivariantNorm(self.degree, config.channels, 1e-5)
        # Without edge norms the residual of the convolution is damped instead of normalised.
        residual = 1e-5 if config.edge_norm else 1.0
        self.residual_norm = EquivariantNorm(self.degree, config.channels, residual)

    def fold(self, w: Weights, last: Tensor, types: Tensor) -> BlockWeights:
        """Fold all parts; arguments as in :meth:`SO2Convolution.fold`."""

        def norm(present: bool, name: str) -> NormWeights | None:
            return self.norm.fold(w.at(name)) if present else None

        pre_so2, post_so2, pre_ffn, post_ffn = self.sandwich
        numbers = range(len(self.networks))
        return BlockWeights(
            convolution=self.convolution.fold(w.at("so2_conv"), last, types),
            pre_convolution=norm(pre_so2, "pre_so2_norm"),
            post_convolution=norm(post_so2, "post_so2_norm"),
            networks=[ffn.fold(w.at(f"ffns.{i}")) for i, ffn in enumerate(self.networks)],
            pre_network=[norm(pre_ffn, f"pre_ffn_norms.{i}") for i in numbers],
            post_network=[norm(post_ffn, f"post_ffn_norms.{i}") for i in numbers],
        )

    def __call__(
        self,
        f: BlockWeights,
        x: Tensor,
        geometry: EdgeGeometry,
        exchange: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Update the node state (D', N, C); rows above the block's degree are dropped.

        With ``exchange``, the state is of own atoms alone; see :class:`md_gie.model.halo.Halo`.
        """
        x = x[: (self.degree + 1) ** 2]
        y = x if f.pre_convolution is None else self.norm(f.pre_convolution, x)
        if exchange is None:
            y = self.convolution(f.convolution, y, geometry)
        else:
            y = self.convolution(f.convolution, exchange(y), geometry)[:, : x.shape[1]]
        x = x + (y if f.post_convolution is None else self.residual_norm(f.post_convolution, y))
        for i, network in enumerate(self.networks):
            before, after = f.pre_network[i], f.post_network[i]
            y = x if before is None else self.norm(before, x)
            y = apply_ffn(network, f.networks[i], y)
            x = x + (y if after is None else self.norm(after, y))
        return x


def apply_ffn(network: FFN, weights: FFNWeights, x: Tensor) -> Tensor:
    """Call a network with its own weights."""
    out: Tensor = network(weights, x)  # type: ignore[arg-type]
    return out
