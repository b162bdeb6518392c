"""Read-out: from node states to atomic energies."""

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

from md_gie.model.block import apply_ffn
from md_gie.model.config import DPA4Config, GridOperation
from md_gie.model.ffn import FFN, FFNWeights, GatedFFN, GridFFN
from md_gie.model.weights import Weights


class ReadoutWeights(NamedTuple):
    """Folded read-out.

    Attributes
    ----------
    networks : list
        Read-out networks in order.
    hidden : list of (in, 2w) and (2w)
        Layers of the fitting network, matrix and bias.
    output : (w, 1)
        Last layer of the fitting network.
    shift : (T,) float64, eV
        Energy of each type.
    """

    networks: list[FFNWeights]
    hidden: list[tuple[Tensor, Tensor]]
    output: Tensor
    shift: Tensor


class Readout:
    """Scalar descriptor of each atom, fitting network and energy shifts."""

    def __init__(self, config: DPA4Config) -> None:
        self.config = config
        self.networks: list[FFN] = [
            self._network(config, scalar_only=i == config.readout_layers - 1)
            for i in range(config.readout_layers)
        ]

    @staticmethod
    def _network(config: DPA4Config, *, scalar_only: bool) -> FFN:
        if config.readout == "none":
            return GatedFFN(0, config.readout_width, linear_unit=config.glu)
        operation: GridOperation = "mlp" if config.readout == "mlp" else "product"
        degree = config.readout_degree
        return GridFFN(
            degree, config.channels, config.readout_width, min(config.kmax, degree), operation,
            scalar_only=scalar_only,
        )  # fmt: skip

    def fold(self, w: Weights) -> ReadoutWeights:
        """Collect parameters and add up the energy shifts."""
        layers = [f"readout_pre_layers.{i}" for i in range(len(self.networks) - 1)]
        descriptor, net = w.at("descriptor"), w.at("fitting_net.filter_layers.networks.0")
        return ReadoutWeights(
            networks=[
                network.fold(descriptor.at(name))
                for network, name in zip(self.networks, [*layers, "output_ffn"], strict=True)
            ],
            hidden=[
                (net[f"hidden_layers.{i}.linear.matrix"], net[f"hidden_layers.{i}.linear.bias"])
                for i in range(len(self.config.fitting_widths))
            ],
            output=net["output_layer.matrix"],
            shift=w["fitting_net.bias_atom_e"].squeeze(1) + w["out_bias"][0].squeeze(1),
        )

    def __call__(self, f: ReadoutWeights, x: Tensor, types: Tensor) -> Tensor:
        """Atomic energies (N,) float64, eV, of a node state (D, N, C)."""
        if self.config.readout == "none":
            x = x[:1]
        for network, weights in zip(self.networks, f.networks, strict=True):
            y = apply_ffn(network, weights, x)
            x = x[: y.shape[0]] + y
        scalars = x[0]
        for matrix, bias in f.hidden:
            value, gate = (scalars @ matrix + bias).chunk(2, dim=1)
            scalars = value * F.silu(gate)
        energies = (scalars @ f.output).squeeze(1)
        return energies.double() + f.shift.index_select(0, types)
