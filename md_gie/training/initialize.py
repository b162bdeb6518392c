"""Initial parameters of a DPA4 model, chosen by parameter name."""

import math

import torch
from torch import Tensor, nn

from md_gie.model import DPA4Config

# softplus of this is 1: an atom starts with the weight of one absent neighbour in its attention.
_UNIT_SOFTPLUS = math.log(math.e - 1.0)
# Last layers of residual branches and of the read-out start small, so that the state begins near
# its initial embedding and energies near the fitted shifts.
_RESIDUAL_GAIN = 0.1
# Bessel functions times envelope have a root mean square near 0.2 between 1 and 5 Å.
_BASIS_GAIN = 4.0
_ZERO_LEAVES = ("bias", "bias0", "bias_atom_e", "out_bias")
# Attention and gates start nearly uniform, but not so that their inputs get no gradient.
_HEADS = ("adamw_attn_logit_w", "adamw_attn_gate_w", "adamw_focus_compete_w")
_HEAD_GAIN = 0.1


@torch.no_grad()
def initialize(model: nn.Module, config: DPA4Config, seed: int) -> None:
    """Fill every parameter of ``model`` with its starting value, in place.

    Matrices are normal with variance ``1 / fan_in``, which keeps the variance of features from
    layer to layer (LeCun et al., Efficient BackProp, 1998); norm scales are 1 and biases 0; the
    attention starts almost uniform under the envelope; radial frequencies start at
    ``(n+1) pi / rcut``. Numbers are drawn on the host in float64, so that they do not depend on
    device or dtype.

    Parameters
    ----------
    model : nn.Module
        Parameters are named as in the DPA4 checkpoint format.
    config : DPA4Config
    seed : int

    Raises
    ------
    KeyError
        If a parameter has a name without a rule.
    """
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        parameter.copy_(_initial(name, tuple(parameter.shape), config, generator))


def is_matrix(name: str) -> bool:
    """Whether a parameter is a matrix between features, to which weight decay applies."""
    leaf = name.rsplit(".", 1)[-1]
    return leaf in ("weight", "matrix", "weight_m0") or ".weight_m." in name


def _initial(
    name: str, shape: tuple[int, ...], config: DPA4Config, generator: torch.Generator
) -> Tensor:
    leaf = name.rsplit(".", 1)[-1]
    if leaf == "adam_freqs":
        return _radial_parameters(config)
    if leaf == "adam_scale":
        return torch.ones(shape)
    if leaf in _ZERO_LEAVES:
        return torch.zeros(shape)
    if leaf in ("film_scale_strength_log", "film_shift_strength_log", "residual_scale"):
        small = 0.1
        return torch.full(shape, small if leaf == "residual_scale" else math.log(small))
    if leaf == "adamw_attn_z_bias_raw":
        return torch.full(shape, _UNIT_SOFTPLUS)
    normal = torch.randn(shape, generator=generator, dtype=torch.float64)
    if leaf == "adam_type_embedding":
        # Edges use the sum of two embeddings: unit variance for the sum. The last row is padding.
        return torch.cat([normal[:-1] / math.sqrt(2), torch.zeros_like(normal[-1:])])
    if leaf == "channel_basis":
        # Around one, so that the first rank acts on every channel.
        return (1.0 + 0.5 * normal) / math.sqrt(shape[0])
    if leaf in _HEADS:
        return normal * _HEAD_GAIN / math.sqrt(shape[0])
    if is_matrix(name):
        return normal * _gain(name) / math.sqrt(_fan_in(name, shape))
    raise KeyError(f"no initial value is defined for parameter {name}")


def _fan_in(name: str, shape: tuple[int, ...]) -> int:
    if ".weight_m." in name:
        return 2 * shape[0]  # each output sums the -m and the +m inputs
    return shape[-2]  # per-degree linears are (degree, in, out)


def _gain(name: str) -> float:
    if name.endswith(("post_focus_mix.weight", "so3_linear_2.weight", "output_layer.matrix")):
        return _RESIDUAL_GAIN
    if name.endswith(("rbf_proj_layer1.matrix", "radial_embedding.net.0.matrix")):
        return _BASIS_GAIN
    return 1.0


def _radial_parameters(config: DPA4Config) -> Tensor:
    if config.basis_type == "gaussian":
        return torch.linspace(0.0, config.rcut, config.n_radial, dtype=torch.float64)[None]
    order = torch.arange(1, config.n_radial + 1, dtype=torch.float64)
    frequencies: Tensor = order * math.pi / config.rcut
    return frequencies[None]
