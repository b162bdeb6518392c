"""DPA4: the boxes of the model in order, nothing more."""

from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from md_gie.model.block import BlockWeights, InteractionBlock
from md_gie.model.config import DPA4Config
from md_gie.model.embedding import Embedding, EmbeddingWeights
from md_gie.model.geometry import Geometry, GeometryWeights
from md_gie.model.gie import GeometricInitialEmbedding, GIEWeights
from md_gie.model.halo import Halo
from md_gie.model.inventory import FLOAT64_PARAMETERS, parameter_shapes
from md_gie.model.radial import RadialWeights, fold_last_layer
from md_gie.model.readout import Readout, ReadoutWeights
from md_gie.model.weights import ConstantKey, Weights
from md_gie.ops.edges import Edges


class FoldedDPA4(NamedTuple):
    """All tensors that an evaluation needs, folded from the parameters."""

    geometry: GeometryWeights
    embedding: EmbeddingWeights
    gie: GIEWeights
    blocks: list[BlockWeights]
    readout: ReadoutWeights


class DPA4(nn.Module):
    """DPA4 (SeZM) interatomic potential.

    The parameters carry the names of the checkpoint format. An evaluation works on constants
    folded from them: anew in each call while training, once for inference (:meth:`freeze`).

    Parameters
    ----------
    config : DPA4Config
        Options of the model.
    dtype : torch.dtype
        float32 or float64; energy shifts are float64 always.
    device : torch.device or str, optional
        Where the parameters live.

    References
    ----------
    Equivariant message passing in edge frames: Passaro and Zitnick, Reducing SO(3) Convolutions to
    SO(2) for Efficient Equivariant GNNs, ICML 2023, arXiv:2302.03655.
    """

    def __init__(
        self,
        config: DPA4Config,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        for name, shape in parameter_shapes(config).items():
            kind = torch.float64 if name in FLOAT64_PARAMETERS else dtype
            _register(self, name, torch.zeros(shape, dtype=kind, device=device))
        self.geometry = Geometry(config)
        self.embedding = Embedding(config)
        self.gie = GeometricInitialEmbedding(config)
        self.blocks = [InteractionBlock(config, b) for b in range(len(config.degrees))]
        self.readout = Readout(config)
        self._constants: dict[ConstantKey, tuple[Tensor, Tensor]] = {}
        self._frozen: FoldedDPA4 | None = None
        self._fused = False  # a model in training needs second derivatives

    def fold(self) -> FoldedDPA4:
        """Fold the parameters; differentiable."""
        w = Weights(dict(self.named_parameters()), constants=self._constants)
        descriptor = w.at("descriptor")
        embedding = self.embedding.fold(descriptor)
        last = fold_last_layer(descriptor, self.config)
        return FoldedDPA4(
            geometry=self.geometry.fold(descriptor),
            embedding=embedding,
            gie=self.gie.fold(descriptor),
            blocks=[
                block.fold(descriptor.at(f"blocks.{b}"), last, embedding.types)
                for b, block in enumerate(self.blocks)
            ],
            readout=self.readout.fold(w),
        )

    def freeze(self, dtype: torch.dtype, device: torch.device | str, kernels: str = "auto") -> Self:
        """Fold in float64, cast, and use the result in every later call.

        ``kernels="reference"`` keeps to plain PyTorch; anything else takes the fused kernels where
        they serve.

        Returns
        -------
        DPA4
            The model itself, ready for inference; its parameters no longer matter.
        """
        with torch.no_grad():
            # The cast, too: weights that want gradients cost memory, and cannot be copied.
            self._frozen = _cast(self.double().fold(), dtype, torch.device(device))
        self._fused = kernels != "reference"
        self._constants.clear()
        return self.eval().requires_grad_(False)

    def forward(
        self, types: Tensor, edges: Edges, vectors: Tensor, halo: Halo | None = None
    ) -> Tensor:
        """Atomic energies of one configuration, or of several side by side.

        Parameters
        ----------
        types : (N,) int64
            Index of each atom's element in ``config.type_map``.
        edges : Edges
            Connectivity; its own vectors are not read.
        vectors : (E, 3) floating, Å
            Edge vectors: the leaf of differentiation. Lengths are computed in float64.
        halo : Halo, optional
            Where other processes have a part in the configuration.

        Returns
        -------
        (N,) float64, eV
            With a halo that exchanges features, of own atoms alone; with another one, the energies
            of the copies mean nothing.
        """
        f = self._frozen if self._frozen is not None else self.fold()
        geometry = self.geometry(f.geometry, types, edges, vectors, fused=self._fused)
        scalars = self.embedding(f.embedding, types, geometry)
        x = self.gie(f.gie, scalars, geometry)
        exchange = None if halo is None else halo.exchange
        if halo is not None and exchange is not None:
            x = x[:, : halo.n_own]
        for block, weights in zip(self.blocks, f.blocks, strict=True):
            x = block(weights, x, geometry, exchange)
        return self.readout(f.readout, x, types[: x.shape[1]])


def _register(root: nn.Module, name: str, value: Tensor) -> None:
    """Register a parameter under a dotted name, making the modules on the way."""
    *scopes, leaf = name.split(".")
    module = root
    for scope in scopes:
        if scope not in module._modules:
            module.add_module(scope, nn.Module())
        module = module.get_submodule(scope)
    module.register_parameter(leaf, nn.Parameter(value))


def _cast(value: Any, dtype: torch.dtype, device: torch.device) -> Any:
    """Cast every tensor of a nest of tuples and lists; what is float64 always stays so."""
    if isinstance(value, Tensor):
        return value.to(dtype=dtype, device=device).contiguous()
    if isinstance(value, ReadoutWeights):
        shift = value.shift.to(device)
        return ReadoutWeights(*_cast([*value], dtype, device))._replace(shift=shift)
    if isinstance(value, RadialWeights):
        frequencies = value.frequencies.to(device)
        return RadialWeights(*_cast([*value], dtype, device))._replace(frequencies=frequencies)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*_cast([*value], dtype, device))
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(item, dtype, device) for item in value)
    return value
