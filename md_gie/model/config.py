"""DPA4Config: the options of a DPA4 model, read from the checkpoint's own dictionary."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from md_gie.errors import CheckpointError
from md_gie.model.options import DESCRIPTOR_DEFAULTS, FITTING_DEFAULTS, check_options

FFNKind = Literal["so3", "s2", "glu", "gated"]
GridOperation = Literal["product", "mlp", "branch"]


@dataclass(frozen=True)
class DPA4Config:
    """Options of one DPA4 model, with defaults filled in and derived sizes resolved.

    Build it with :meth:`from_model_params`, which refuses every option that md_gie does not
    implement by name and value. Symbols of the literature in brackets.

    Attributes
    ----------
    type_map : tuple of str
        Element symbols; the index is the type.
    rcut : float, Å
        Cutoff.
    channels : int
        Channels of the node state (C).
    degrees : tuple of int
        Largest degree of each interaction block (L); empty for a model without blocks.
    orders : tuple of int
        Largest order kept in the edge frame of each block (mmax).
    lmax : int
        Degree of the initial node state.
    focus_width, n_focus : int
        Channels of one focus stream (Cf) and number of streams (F); hidden width is their product.
    ffn_width, readout_width : int
        Hidden channels (G) of the block and read-out feed-forward networks.
    version : float
        Format version of the descriptor; 1.0 multiplies no envelope into the radial features.
    """

    type_map: tuple[str, ...]
    rcut: float
    env_exp: tuple[int, int]
    channels: int
    basis_type: str
    n_radial: int
    radial_width: int
    edge_norm: bool
    use_env_seed: bool
    lmax: int
    degrees: tuple[int, ...]
    orders: tuple[int, ...]
    kmax: int
    mixing_layers: int
    radial_so2_mode: str
    radial_so2_rank: int
    n_focus: int
    focus_width: int
    n_heads: int
    ffn_kind: FFNKind
    ffn_operation: GridOperation
    ffn_width: int
    ffn_blocks: int
    sandwich_norm: tuple[bool, bool, bool, bool]
    message_node_so3: bool
    readout: str
    readout_layers: int
    readout_width: int
    glu: bool
    fitting_widths: tuple[int, ...]
    version: float
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def hidden(self) -> int:
        """Hidden width of the SO(2) convolution, Hh = F Cf."""
        return self.n_focus * self.focus_width

    @property
    def n_types(self) -> int:
        """Number of types that the model knows."""
        return len(self.type_map)

    @property
    def readout_degree(self) -> int:
        """Degree of the node state that enters the read-out."""
        return self.degrees[-1] if self.degrees else self.lmax

    def model_params(self) -> dict[str, Any]:
        """Return the model dictionary as it is stored in a checkpoint.

        It carries what other readers of the format ask for although no number depends on it: the
        types of model and parts, and ``sel``.
        """
        params = copy.deepcopy(dict(self.raw))
        params["descriptor"] = {"type": "dpa4", "sel": 256, **params["descriptor"]}
        params["fitting_net"] = {"type": "dpa4_ener", **params["fitting_net"]}
        return {"type": "dpa4", **params}

    @classmethod
    def from_model_params(cls, params: Mapping[str, Any], *, version: float = 1.1) -> Self:
        """Read the ``model_params`` of a checkpoint.

        Parameters
        ----------
        params : mapping
            Dictionary with ``type_map``, ``descriptor`` and ``fitting_net``; missing options take
            the defaults of the format.
        version : float
            Value of the buffer ``descriptor.version_tensor``; 1.0 if a file has none.

        Raises
        ------
        CheckpointError
            If an option has a value that md_gie does not implement; the message names both.
        """
        check_options(params, version)
        d = {**DESCRIPTOR_DEFAULTS, **params["descriptor"]}
        f = {**FITTING_DEFAULTS, **params["fitting_net"]}
        channels = int(d["channels"])
        degrees = _degrees(d)
        lmax = degrees[0] if degrees else int(d["lmax"])
        mmax = d["mmax"]
        so3 = bool(d["ffn_so3_grid"])
        s2 = bool(d["s2_activation"][1]) and not so3
        kind: FFNKind = "so3" if so3 else "s2" if s2 else "glu" if d["glu_activation"] else "gated"
        return cls(
            type_map=tuple(params["type_map"]),
            rcut=float(d["rcut"]),
            env_exp=(int(d["env_exp"][0]), int(d["env_exp"][1])),
            channels=channels,
            basis_type=str(d["basis_type"]).split("/")[0],
            n_radial=int(d["n_radial"]),
            radial_width=int(d["radial_mlp"][0]) or channels,
            edge_norm=bool(d["edge_norm"]),
            use_env_seed=bool(d["use_env_seed"]),
            lmax=lmax,
            degrees=degrees,
            orders=tuple(degree if mmax is None else min(int(mmax), degree) for degree in degrees),
            kmax=int(d["kmax"]),
            mixing_layers=int(d.get("so2_layers", d["mixing_layers"])),
            radial_so2_mode=str(d["radial_so2_mode"]),
            radial_so2_rank=int(d["radial_so2_rank"]),
            n_focus=int(d["n_focus"]),
            focus_width=int(d["focus_dim"]) or channels,
            n_heads=int(d["n_atten_head"]),
            ffn_kind=kind,
            ffn_operation=_grid_operation(d, 2),
            ffn_width=int(d["ffn_neurons"]) or _ffn_width(channels, kind != "gated"),
            ffn_blocks=int(d["ffn_blocks"]),
            sandwich_norm=_four_booleans(d["sandwich_norm"]),
            message_node_so3=bool(d["message_node_so3"]),
            readout=str(d["so3_readout"]),
            readout_layers=int(d["readout_layers"]),
            readout_width=int(d["ffn_neurons"]) or _ffn_width(channels, bool(d["glu_activation"])),
            glu=bool(d["glu_activation"]),
            fitting_widths=tuple(int(w) or _round_up(8 * channels / 3) for w in f["neuron"]),
            version=float(version),
            raw=copy.deepcopy(dict(params)),
        )


def _four_booleans(values: Sequence[bool]) -> tuple[bool, bool, bool, bool]:
    a, b, c, d = values
    return a, b, c, d


def _degrees(d: Mapping[str, Any]) -> tuple[int, ...]:
    schedule = d["l_schedule"]
    if schedule is None:
        return (int(d["lmax"]),) * int(d["n_blocks"])
    degrees = tuple(int(degree) for degree in schedule)
    if list(degrees) != sorted(degrees, reverse=True):
        raise CheckpointError(
            f"descriptor option l_schedule = {schedule} grows; it must not increase from block to "
            "block"
        )
    return degrees


def _grid_operation(d: Mapping[str, Any], path: int) -> GridOperation:
    def entry(value: Any) -> Any:
        return value[path] if isinstance(value, (list, tuple)) else value

    if int(entry(d["grid_branch"])) > 0:
        return "branch"
    return "mlp" if entry(d["grid_mlp"]) else "product"


def _ffn_width(channels: int, gated_linear: bool) -> int:
    return _round_up(8 * channels / 3 if gated_linear else 4 * channels)


def _round_up(width: float) -> int:
    return 32 * math.ceil(width / 32)
