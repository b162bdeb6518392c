"""Options of the DPA4 format: defaults, and what md_gie implements of them."""

from collections.abc import Callable, Mapping
from typing import Any

from md_gie.errors import CheckpointError

ALIASES = ("dpa4", "DPA4", "SeZM", "sezm")
LATEST_VERSION = 1.2

DESCRIPTOR_DEFAULTS: dict[str, Any] = {
    "rcut": 6.0,
    "env_exp": [7, 5],
    "channels": 64,
    "basis_type": "bessel",
    "n_radial": 10,
    "radial_mlp": [0],
    "edge_norm": True,
    "use_env_seed": True,
    "lmax": 3,
    "l_schedule": None,
    "mmax": 1,
    "kmax": 1,
    "m_schedule": None,
    "extra_node_l": 0,
    "n_blocks": 3,
    "so2_norm": False,
    "mixing_layers": 4,
    "radial_so2_mode": "degree_channel",
    "radial_so2_rank": 1,
    "n_focus": 1,
    "focus_dim": 0,
    "n_atten_head": 1,
    "ffn_neurons": 0,
    "grid_mlp": False,
    "grid_branch": 0,
    "ffn_blocks": 1,
    "sandwich_norm": [False, True, True, False],
    "s2_activation": [False, True],
    "ffn_so3_grid": False,
    "node_wise_s2": False,
    "node_wise_so3": False,
    "message_node_s2": False,
    "message_node_so3": False,
    "so3_readout": "none",
    "readout_layers": 1,
    "lebedev_quadrature": True,
    "activation_function": "silu",
    "glu_activation": True,
    "precision": "float32",
    "eps": 1e-7,
    "exclude_types": [],
}
FITTING_DEFAULTS: dict[str, Any] = {
    "neuron": [0],
    "activation_function": "silu",
    "precision": "float32",
}

# Options without effect on inference.
_IGNORED_DESCRIPTOR = {"type", "sel", "random_gamma", "use_amp", "trainable", "seed", "so2_layers"}
_IGNORED_FITTING = {
    "type", "seed", "resnet_dt", "trainable", "rcond", "use_aparam_as_mask", "default_fparam",
}  # fmt: skip


def _one_of(*values: Any) -> Callable[[Any], bool]:
    return lambda value: any(type(value) is type(v) and value == v for v in values)


def _integer(low: int, high: int | None = None) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, int)
        and not isinstance(value, bool)
        and value >= low
        and (high is None or value <= high)
    )


def _sequence(entry: Callable[[Any], bool], length: int | None = None) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, (list, tuple))
        and len(value) == (length or max(1, len(value)))
        and all(map(entry, value))
    )


def _third_is(*values: int | bool) -> Callable[[Any], bool]:
    # One entry for each path: node-wise, message-node and feed-forward, of which the last counts.
    entry, last = _one_of(*range(64), False, True), _one_of(*values)
    three = _sequence(entry, 3)
    return lambda value: last(value) or (three(value) and last(value[2]))


def _length(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < float("inf")


_boolean = _one_of(False, True)
_off = _one_of(False, None, "none", "None", 0)
_empty = _one_of(None, False, [], (), {})
_alias = _one_of(*ALIASES)
_energy = _one_of("dpa4_ener", "sezm_ener")

# What each descriptor option may be, and the words for it.
_DESCRIPTOR: dict[str, tuple[Callable[[Any], bool], str]] = {
    "rcut": (_length, "a positive length"),
    "env_exp": (_sequence(_integer(1), 2), "a pair of positive integers"),
    "channels": (_integer(1), "a positive integer"),
    "basis_type": (
        _one_of("bessel", "gaussian", "bessel/fix", "gaussian/fix"),
        "'bessel' or 'gaussian'",
    ),
    "n_radial": (_integer(1), "a positive integer"),
    "radial_mlp": (_sequence(_integer(0), 1), "a list of one hidden width"),
    "edge_norm": (_boolean, "true or false"),
    "use_env_seed": (_boolean, "true or false"),
    "lmax": (_integer(1, 8), "an integer from 1 to 8"),
    "l_schedule": (
        lambda v: v is None or _sequence(_integer(1, 8))(v),
        "null or a list of degrees from 1 to 8",
    ),
    "mmax": (_integer(1, 2), "1 or 2"),
    "kmax": (_integer(0, 1), "0 or 1"),
    "m_schedule": (_one_of(None), "null"),
    "extra_node_l": (_one_of(0), "0"),
    "n_blocks": (_integer(0, 64), "an integer from 0 to 64"),
    "so2_norm": (_off, "false"),
    "mixing_layers": (_integer(1), "a positive integer"),
    "so2_layers": (_integer(1), "a positive integer"),
    "radial_so2_mode": (
        _one_of("none", "degree", "degree_channel"),
        "'none', 'degree' or 'degree_channel'",
    ),
    "radial_so2_rank": (_integer(0), "a non-negative integer"),
    "n_focus": (_integer(1), "a positive integer"),
    "focus_dim": (_integer(0), "a non-negative integer"),
    "n_atten_head": (_integer(0), "a non-negative integer"),
    "ffn_neurons": (_integer(0), "a non-negative integer"),
    "grid_mlp": (_third_is(False, True), "a boolean or three"),
    "grid_branch": (_third_is(0, 1), "at most one branch in the feed-forward network"),
    "ffn_blocks": (_integer(1), "a positive integer"),
    "sandwich_norm": (_sequence(_boolean, 4), "four booleans"),
    "s2_activation": (
        lambda v: _sequence(_boolean, 2)(v) and v[0] is False,
        "[false, true] or [false, false]",
    ),
    "ffn_so3_grid": (_boolean, "true or false"),
    "node_wise_s2": (_off, "false"),
    "node_wise_so3": (_off, "false"),
    "message_node_s2": (_off, "false"),
    "message_node_so3": (_boolean, "true or false"),
    "so3_readout": (_one_of("none", "mlp", "glu"), "'none', 'mlp' or 'glu'"),
    "readout_layers": (_integer(1), "a positive integer"),
    "activation_function": (_one_of("silu"), "'silu'"),
    "glu_activation": (_boolean, "true or false"),
    "precision": (_one_of("float32", "float64"), "'float32' or 'float64'"),
    "eps": (_one_of(1e-7), "1e-7"),
    "exclude_types": (_one_of([]), "an empty list"),
}


def check_options(params: Mapping[str, Any], version: float) -> None:
    """Refuse every option of ``model_params`` that md_gie does not implement.

    Raises
    ------
    CheckpointError
        One sentence with the option, its value and what is possible.
    """
    for key in ("type_map", "descriptor", "fitting_net"):
        if key not in params:
            raise CheckpointError(
                f"the model dictionary has no {key!r}; it is not a DPA4 energy model"
            )
    for key in ("descriptor", "fitting_net"):
        if not isinstance(params[key], Mapping):
            _refuse(f"model option {key}", params[key], "a dictionary of options")
    if not 1.0 <= version <= LATEST_VERSION:
        _refuse("descriptor version", version, f"1.0 to {LATEST_VERSION}")
    _check_model(params)
    _check_descriptor(params["descriptor"])
    _check_fitting(params["fitting_net"])


def _check_model(params: Mapping[str, Any]) -> None:
    types = params["type_map"]
    symbols = _sequence(lambda symbol: isinstance(symbol, str) and symbol != "")
    if not symbols(types) or len(set(types)) != len(types):
        _refuse("model option type_map", types, "a list of different element symbols")
    if not _alias(params.get("type", "dpa4")):
        _refuse("model option type", params["type"], "'dpa4' (alias 'SeZM')")
    for key in ("pair_exclude_types", "atom_exclude_types"):
        if not _empty(params.get(key)):
            _refuse(f"model option {key}", params[key], "an empty list")
    bridging = str(params.get("bridging_method", "none"))
    if bridging.lower() != "none":
        _refuse("model option bridging_method", bridging, "'none'")
    for key in ("spin", "lora", "use_spin"):
        if not _empty(params.get(key)):
            _refuse(f"model option {key}", params[key], "null")


def _check_descriptor(given: Mapping[str, Any]) -> None:
    if not _alias(given.get("type", "dpa4")):
        _refuse("descriptor option type", given["type"], "'dpa4' (alias 'SeZM')")
    for key, value in given.items():
        if key in _DESCRIPTOR:
            accepts, words = _DESCRIPTOR[key]
            if not accepts(value):
                _refuse(f"descriptor option {key}", value, words)
        elif key == "lebedev_quadrature":
            # Only the S2 networks depend on it, and any exact quadrature gives their numbers.
            if not _boolean(value):
                _refuse("descriptor option lebedev_quadrature", value, "true")
        elif key not in _IGNORED_DESCRIPTOR and not _off(value):
            _refuse(f"descriptor option {key}", value, "off")
    _check_combinations({**DESCRIPTOR_DEFAULTS, **given})


def _check_combinations(d: Mapping[str, Any]) -> None:
    if d["lebedev_quadrature"] is False and not d["ffn_so3_grid"] and d["s2_activation"][1]:
        _refuse("descriptor option lebedev_quadrature", False, "true where an S2 network exists")
    width = d["focus_dim"] or d["channels"]
    if d["n_atten_head"] and width % d["n_atten_head"]:
        _refuse(
            "descriptor option n_atten_head", d["n_atten_head"], f"a divisor of the width {width}"
        )
    message_operation = [
        value[1] if isinstance(value, (list, tuple)) else value
        for value in (d["grid_mlp"], d["grid_branch"])
    ]
    if d["message_node_so3"] and any(message_operation):
        _refuse(
            "descriptor options grid_mlp, grid_branch of the message-node path",
            message_operation,
            "false and 0",
        )


def _check_fitting(given: Mapping[str, Any]) -> None:
    if not _energy(given.get("type", "dpa4_ener")):
        _refuse("fitting_net option type", given["type"], "'dpa4_ener' (alias 'sezm_ener')")
    for key, value in given.items():
        if key == "neuron":
            if not _one_of([])(value) and not _sequence(_integer(0))(value):
                _refuse("fitting_net option neuron", value, "a list of widths")
        elif key == "activation_function":
            if not _one_of("silu")(value):
                _refuse("fitting_net option activation_function", value, "'silu'")
        elif key == "precision":
            if not _one_of("float32", "float64")(value):
                _refuse("fitting_net option precision", value, "'float32' or 'float64'")
        elif key not in _IGNORED_FITTING and not _off(value) and not _one_of([])(value):
            _refuse(f"fitting_net option {key}", value, "off")


def _refuse(what: str, value: Any, possible: str) -> None:
    raise CheckpointError(
        f"{what} = {value!r} is not implemented; md_gie takes {possible}. Use a checkpoint of a "
        "published DPA4 grade",
        option=what,
        value=value,
    )
