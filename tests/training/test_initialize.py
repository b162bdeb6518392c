"""Starting parameters of real DPA4 models."""

import math

import pytest
import torch

from md_gie.model import DPA4, DPA4Config
from md_gie.training.data import collate
from md_gie.training.initialize import initialize, is_matrix
from md_gie.training.loss import predict

TINY = {
    "channels": 8, "n_radial": 4, "lmax": 2, "n_blocks": 1, "mixing_layers": 2, "rcut": 4.0,
    "edge_norm": False, "message_node_so3": True, "ffn_so3_grid": True, "grid_branch": [0, 0, 1],
    "so3_readout": "mlp",
}  # fmt: skip


def make_config(**options: object) -> DPA4Config:
    return DPA4Config.from_model_params(
        {
            "type": "dpa4",
            "type_map": ["O", "H"],
            "descriptor": {"type": "dpa4", **TINY, **options},
            "fitting_net": {"type": "dpa4_ener", "neuron": [0]},
        }
    )


def make_model(config: DPA4Config, seed: int = 4) -> DPA4:
    model = DPA4(config)
    initialize(model, config, seed)
    return model


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"edge_norm": True, "n_focus": 2, "radial_so2_rank": 2, "so3_readout": "none"},
        {"basis_type": "gaussian", "ffn_so3_grid": False, "radial_so2_mode": "none"},
        {"n_blocks": 2, "sandwich_norm": [True, True, True, True], "channels": 24},
    ],
)
def test_every_option_starts_with_small_finite_forces(options, graphs):
    model = make_model(make_config(**options)).train()
    prediction = predict(model, collate(graphs[:3]), create_graph=True)
    size = prediction.forces.abs().max().item()
    assert math.isfinite(size)
    assert 1e-4 < size < 20.0
    loss = prediction.forces.square().mean()
    names, parameters = zip(
        *((n, p) for n, p in model.named_parameters() if "bias" not in n), strict=True
    )
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    # Nothing that matters for forces starts dead; a router of one branch never acts.
    for name, gradient in zip(names, gradients, strict=True):
        if "router" not in name:
            assert gradient is not None, name
            assert gradient.abs().max() > 0, name


def test_values_depend_on_the_seed_alone():
    config = make_config()
    values = [dict(make_model(config, seed).named_parameters()) for seed in (4, 4, 5)]
    assert all(torch.equal(values[0][name], values[1][name]) for name in values[0])
    changed = [name for name in values[0] if not torch.equal(values[0][name], values[2][name])]
    assert any("so2_linears.0.weight_m0" in name for name in changed)


def test_special_parameters():
    parameters = dict(make_model(make_config()).named_parameters())
    frequencies = parameters["descriptor.radial_basis.adam_freqs"].detach()
    expected = torch.arange(1, 5)[None] * math.pi / 4.0
    torch.testing.assert_close(frequencies, expected)
    bias = parameters["descriptor.blocks.0.so2_conv.adamw_attn_z_bias_raw"]
    assert torch.nn.functional.softplus(bias).item() == pytest.approx(1.0, abs=1e-6)
    assert not parameters["descriptor.type_embedding.adam_type_embedding"][-1].any()


def test_unknown_parameters_are_named():
    model = torch.nn.Module()
    model.register_parameter("novelty", torch.nn.Parameter(torch.zeros(2)))
    with pytest.raises(KeyError, match="novelty"):
        initialize(model, make_config(), 1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fitting_net.filter_layers.networks.0.output_layer.matrix", True),
        ("descriptor.blocks.0.so2_conv.so2_linears.0.weight_m.0", True),
        ("descriptor.blocks.0.so2_conv.so2_linears.0.weight_m0", True),
        ("descriptor.radial_basis.adam_freqs", False),
        ("descriptor.blocks.0.so2_conv.radial_degree_mixer.channel_basis", False),
        ("descriptor.blocks.0.so2_conv.adamw_attn_logit_w", False),
    ],
)
def test_decay_applies_to_matrices(name, expected):
    assert is_matrix(name) is expected
