"""Options: every one that md_gie does not implement is refused by name and value."""

import copy
import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from md_gie.errors import CheckpointError
from md_gie.model import DPA4Config
from md_gie.model.options import DESCRIPTOR_DEFAULTS, FITTING_DEFAULTS

Params = Callable[..., dict[str, Any]]

REFUSED_DESCRIPTOR: list[tuple[str, Any]] = [
    ("type", "se_e2_a"),
    ("rcut", 0), ("rcut", -6.0), ("rcut", float("inf")), ("rcut", "6"), ("rcut", True),
    ("env_exp", 5), ("env_exp", [7]), ("env_exp", [7, 0]),
    ("channels", 0), ("channels", 32.0),
    ("basis_type", "chebyshev"),
    ("n_radial", 0),
    ("radial_mlp", [0, 0]), ("radial_mlp", [None]), ("radial_mlp", 0),
    ("edge_norm", [False, True, True]), ("edge_norm", 1),
    ("use_env_seed", None),
    ("lmax", 0), ("lmax", 9),
    ("l_schedule", []), ("l_schedule", [2, 0]), ("l_schedule", 2),
    ("mmax", None), ("mmax", 0), ("mmax", 3),
    ("kmax", 2), ("m_schedule", [1, 1]), ("extra_node_l", 1), ("n_blocks", -1),
    ("so2_norm", True), ("mixing_layers", 0), ("so2_layers", 0),
    ("radial_so2_mode", "full"), ("radial_so2_rank", -1),
    ("n_focus", 0), ("focus_dim", -1), ("n_atten_head", 3), ("n_atten_head", -1),
    ("atten_f_mix", True), ("atten_v_proj", True), ("atten_o_proj", True),
    ("ffn_neurons", -1), ("ffn_neurons", "auto"),
    ("grid_mlp", [True, True]), ("grid_mlp", "yes"), ("grid_mlp", [False, False, None]),
    ("grid_branch", 2), ("grid_branch", [0, 0, 2]), ("grid_branch", 0.5),
    ("ffn_blocks", 0), ("sandwich_norm", [True, False]), ("sandwich_norm", "no"),
    ("mlp_bias", True), ("layer_scale", True),
    ("full_attn_res", "all"), ("block_attn_res", "all"), ("so2_attn_res", "all"),
    ("s2_activation", [True, True]), ("s2_activation", True), ("s2_activation", [0, 1]),
    ("ffn_so3_grid", "x"), ("node_wise_s2", True), ("node_wise_so3", True),
    ("message_node_s2", True), ("message_node_so3", 1),
    ("so3_readout", "grid"), ("readout_layers", 0),
    ("lebedev_quadrature", "fine"),
    ("activation_function", "tanh"), ("glu_activation", "no"),
    ("edge_cartesian", True), ("node_cartesian", "all"),
    ("add_chg_spin_ebd", True), ("default_chg_spin", [0, 1]), ("use_spin", True),
    ("exclude_types", [[0, 1]]), ("precision", "float16"), ("precision", "bfloat16"),
    ("eps", 1e-6), ("brand_new_option", 3),
]  # fmt: skip
REFUSED_FITTING: list[tuple[str, Any]] = [
    ("type", "ener"), ("type", "property"), ("type", "dens"),
    ("neuron", "many"), ("neuron", [None]), ("neuron", [-1]), ("neuron", 0),
    ("activation_function", "tanh"), ("precision", "float16"),
    ("numb_fparam", 1), ("numb_aparam", 2), ("dim_case_embd", 4), ("case_film_embd", True),
    ("atom_ener", [0.0, 1.0]), ("exclude_types", [1]), ("brand_new_option", "on"),
]  # fmt: skip
REFUSED_MODEL: list[tuple[str, Any]] = [
    ("type", "standard"), ("type_map", []), ("type_map", "OH"), ("type_map", ["O", 1]),
    ("type_map", ["O", "O"]), ("type_map", [""]), ("type_map", None),
    ("pair_exclude_types", [[1, 2]]), ("atom_exclude_types", [2]),
    ("bridging_method", "ZBL"), ("bridging_method", "zbl"),
    ("spin", {"use_spin": [True, False]}), ("lora", {"rank": 4}),
    ("descriptor", None), ("descriptor", [1]), ("fitting_net", "ener"),
]  # fmt: skip


def refused(params: dict[str, Any], option: str, value: Any) -> None:
    with pytest.raises(CheckpointError) as caught:
        DPA4Config.from_model_params(params)
    message = str(caught.value)
    assert re.search(rf"\b{option}\b", message), message
    assert repr(value) in message, message
    assert "\n" not in message


@pytest.mark.parametrize(("option", "value"), REFUSED_DESCRIPTOR)
def test_descriptor_options(option: str, value: Any, make_params: Params) -> None:
    refused(make_params(**{option: value}), option, value)


@pytest.mark.parametrize(("option", "value"), REFUSED_FITTING)
def test_fitting_options(option: str, value: Any, make_params: Params) -> None:
    params = make_params()
    params["fitting_net"][option] = value
    refused(params, option, value)


@pytest.mark.parametrize(("option", "value"), REFUSED_MODEL)
def test_model_options(option: str, value: Any, make_params: Params) -> None:
    refused({**make_params(), option: value}, option, value)


@pytest.mark.parametrize("key", ["type_map", "descriptor", "fitting_net"])
def test_missing_parts(key: str, make_params: Params) -> None:
    params = make_params()
    del params[key]
    with pytest.raises(CheckpointError, match=f"has no '{key}'; it is not a DPA4 energy model"):
        DPA4Config.from_model_params(params)


@pytest.mark.parametrize(
    "options",
    [
        {"grid_mlp": True},
        {"grid_branch": 1},
        {"lebedev_quadrature": False, "ffn_so3_grid": False},
        {"l_schedule": [1, 2]},
    ],
    ids=str,
)
def test_combinations(options: dict[str, Any], make_params: Params) -> None:
    params = make_params(grid_branch=0)
    params["descriptor"].update(options)
    with pytest.raises(CheckpointError):
        DPA4Config.from_model_params(params)


ODD_VALUES: list[Any] = [
    None, True, "1", "none", -1, 0, 0.5, float("nan"), 10**30, [], [None], [[]], [1, [2]],
    ["a", "b", "c", "d"], {}, {"a": None}, (None, None), torch.zeros(2), b"x",
]  # fmt: skip


@pytest.mark.parametrize("option", [*DESCRIPTOR_DEFAULTS, "so2_layers", "type", "unheard_of"])
def test_odd_descriptor_values_never_escape(option: str, make_params: Params) -> None:
    for value in ODD_VALUES:
        try:
            DPA4Config.from_model_params(make_params(**{option: value}))
        except CheckpointError as error:
            assert option in str(error) or option in ("focus_dim", "channels")  # noqa: PT017


@pytest.mark.parametrize(
    ("part", "option"),
    [
        *itertools.product(["fitting_net"], [*FITTING_DEFAULTS, "type", "unheard_of"]),
        *itertools.product([None], ["type", "type_map", "descriptor", "fitting_net", "lora"]),
        *itertools.product([None], ["bridging_method", "pair_exclude_types", "spin"]),
    ],
)
def test_other_odd_values_never_escape(part: str | None, option: str, make_params: Params) -> None:
    for value in ODD_VALUES:
        params = copy.deepcopy(make_params())
        (params if part is None else params[part])[option] = value
        try:
            DPA4Config.from_model_params(params)
        except CheckpointError as error:
            assert option in str(error)  # noqa: PT017


def test_options_without_effect_are_accepted(make_params: Params) -> None:
    plain = DPA4Config.from_model_params(make_params())
    noisy = make_params(
        sel=[3, 4], random_gamma=False, use_amp=True, trainable=False, seed=None,
        edge_cartesian=False,
        node_cartesian="none", mlp_bias=False, add_chg_spin_ebd=False, default_chg_spin=None,
    )  # fmt: skip
    noisy |= {"lora": None, "info": {}, "use_compile": True, "bridging_method": "None"}
    noisy["fitting_net"] |= {"seed": 3, "resnet_dt": False, "atom_ener": [], "numb_fparam": 0}
    assert DPA4Config.from_model_params(noisy) == plain


@pytest.mark.parametrize("alias", ["dpa4", "DPA4", "SeZM", "sezm"])
def test_aliases(alias: str, make_params: Params) -> None:
    params = {**make_params(type=alias), "type": alias}
    params["fitting_net"]["type"] = "sezm_ener"
    assert DPA4Config.from_model_params(params) == DPA4Config.from_model_params(make_params())


def test_legacy_name_of_the_mixing_layers_wins(make_params: Params) -> None:
    assert DPA4Config.from_model_params(make_params(so2_layers=4)).mixing_layers == 4


def test_derived_sizes(make_params: Params) -> None:
    """Widths of the published grades and of a pyramid."""
    params = make_params(channels=64, ffn_neurons=0, l_schedule=[3, 2, 1], mmax=2, focus_dim=16)
    config = DPA4Config.from_model_params(params)
    assert config.degrees == (3, 2, 1)
    assert config.orders == (2, 2, 1)
    assert config.lmax == 3
    assert config.readout_degree == 1
    assert config.hidden == 32
    assert config.ffn_width == config.readout_width == 192
    gated = make_params(
        channels=64, ffn_neurons=0, ffn_so3_grid=False, s2_activation=[False, False],
        glu_activation=False,
    )  # fmt: skip
    assert DPA4Config.from_model_params(gated).ffn_width == 256
