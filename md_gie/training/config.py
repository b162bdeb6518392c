"""TrainingConfig: what `md-gie train` reads from a TOML file; unknown keys are errors."""

import dataclasses
import difflib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from md_gie.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True)
class DataConfig:
    """Files of labelled frames; relative paths start at the folder of the configuration."""

    train: list[str]
    valid: list[str]


@dataclass(frozen=True)
class LossConfig:
    """Weights of squared errors: forces in (eV/Å)², energies per atom in eV²."""

    energy_weight_start: float
    energy_weight_end: float
    force_weight: float = 1.0
    kind: Literal["mse", "huber"] = "mse"
    huber_delta_eV_A: float = 0.1


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW (decay on matrices only), its schedule, gradient clipping, parameter average."""

    learning_rate: float
    final_learning_rate: float
    warmup_steps: int = 0
    schedule: Literal["cosine", "exponential"] = "cosine"
    weight_decay: float = 0.0
    clip_norm: float = 10.0
    ema_decay: float = 0.999


@dataclass(frozen=True)
class RunConfig:
    """Length, seeds, device and output of a training run.

    ``max_minutes`` bounds the wall time: progress is the larger of ``step / steps`` and
    ``elapsed / max_minutes``, and the schedules follow progress, so that a run cut by time ends
    annealed. A run bound by time does not repeat bit for bit.
    """

    name: str
    output_dir: str
    steps: int
    batch_size: int
    seed: int = 1
    max_minutes: float | None = None
    start_from: str | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    tf32: bool = False
    log_every: int = 100
    validate_every: int = 1000
    checkpoint_every: int = 1000


@dataclass(frozen=True)
class TrainingConfig:
    """One training run: data, model options of the DPA4 format, loss, optimizer, run."""

    data: DataConfig
    loss: LossConfig
    optimizer: OptimizerConfig
    run: RunConfig
    model: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain dictionaries, as stored beside the results."""
        return dataclasses.asdict(self)


def read_config(path: str | Path) -> TrainingConfig:
    """Read a training configuration.

    Parameters
    ----------
    path : path of a TOML file
        Tables ``[data]``, ``[model]``, ``[loss]``, ``[optimizer]``, ``[run]``.

    Raises
    ------
    ConfigError
        If the file is missing or not TOML, a key is unknown or missing, or a value has the wrong
        type or range; the message names file, table and key.
    """
    path = Path(path)
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); name a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file ({error}); correct it there") from error
    config = _section(TrainingConfig, tables, str(path), "the file")
    _check_ranges(config, str(path))
    return config


def _section(cls: type[T], table: dict[str, Any], where: str, name: str) -> T:
    hints = get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    keys = ", ".join(sorted(fields))
    for key in table:
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1)
            guess = f"; did you mean {near[0]}?" if near else "."
            raise ConfigError(
                f"{where}: unknown key {key}{guess} Keys of {name}: {keys}", key=key, near=near
            )
    values = {}
    for key, field in fields.items():
        if key in table:
            values[key] = _convert(table[key], hints[key], where, key)
        elif field.default is dataclasses.MISSING:
            raise ConfigError(f"{where}: key {key} is missing. Keys of {name}: {keys}", key=key)
    return cls(**values)


def _convert(value: Any, hint: Any, where: str, key: str) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, dict):
            raise ConfigError(f"{where}: {key} = {value!r}; it must be a table [{key}]", key=key)
        return _section(hint, value, f"{where}, [{key}]", f"[{key}]")
    if get_origin(hint) in (Union, UnionType):
        hint = next(h for h in get_args(hint) if h is not type(None))
    if get_origin(hint) is Literal:
        fits, wanted = value in get_args(hint), " or ".join(map(repr, get_args(hint)))
    elif hint is float:
        fits, wanted = isinstance(value, (int, float)) and not isinstance(value, bool), "a number"
        value = float(value) if fits else value
    elif hint is int:
        fits, wanted = isinstance(value, int) and not isinstance(value, bool), "an integer"
    elif hint == list[str]:
        value = [value] if isinstance(value, str) else value
        fits = isinstance(value, list) and all(isinstance(v, str) for v in value) and bool(value)
        wanted = "a path or a list of paths"
    else:
        origin = get_origin(hint) or hint
        fits, wanted = (
            isinstance(value, origin),
            {"dict": "a table", "bool": "true or false"}.get(origin.__name__, "a string"),
        )
    if not fits:
        raise ConfigError(f"{where}: {key} = {value!r}; it must be {wanted}", key=key, value=value)
    return value


def _check_ranges(config: TrainingConfig, where: str) -> None:
    positive = {
        "loss": ["energy_weight_start", "energy_weight_end", "huber_delta_eV_A"],
        "optimizer": ["learning_rate", "final_learning_rate", "clip_norm"],
        "run": [
            "steps", "batch_size", "max_minutes", "log_every", "validate_every", "checkpoint_every"
        ],
    }  # fmt: skip
    for section, keys in positive.items():
        for key in keys:
            value = getattr(getattr(config, section), key)
            if value is not None and not 0 < value < float("inf"):
                raise ConfigError(
                    f"{where}, [{section}]: {key} = {value!r}; it must be positive", key=key
                )
    for section, key, low, high in (
        ("loss", "force_weight", 0.0, float("inf")),
        ("optimizer", "warmup_steps", 0, float("inf")),
        ("optimizer", "weight_decay", 0.0, 1.0),
        ("optimizer", "ema_decay", 0.0, 1.0),
        ("run", "seed", 0, 2**63),
    ):
        value = getattr(getattr(config, section), key)
        if not low <= value < high:
            raise ConfigError(
                f"{where}, [{section}]: {key} = {value!r}; it must be at least {low:g} and below "
                f"{high:g}",
                key=key,
            )
