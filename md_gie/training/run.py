"""train_from_config: from a configuration file to a trained DPA4 checkpoint."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from md_gie.errors import ConfigError
from md_gie.model import DPA4, DPA4Config, read_checkpoint, write_checkpoint
from md_gie.structure import LabelledFrame
from md_gie.training.config import RunConfig, TrainingConfig, read_config
from md_gie.training.data import FrameGraph, build_graphs, fit_element_energies, read_frames
from md_gie.training.initialize import initialize
from md_gie.training.metrics import Errors
from md_gie.training.state import state_path
from md_gie.training.trainer import Trainer, report_to_stderr

# Set by the energy fit, not by gradient steps: a step of Adam would move them by far more than
# the energy errors aimed at.
_FIXED = ("out_bias", "fitting_net.bias_atom_e")


class TrainingResult(NamedTuple):
    """Outcome of :func:`train_from_config`.

    Attributes
    ----------
    model_path : Path
        Checkpoint in the DPA4 format with the averaged parameters.
    errors : Errors
        On the validation frames.
    finished : bool
        False if the run was paused; resume it to go on.
    """

    model_path: Path
    errors: Errors
    finished: bool


def train_from_config(
    path: str | Path,
    *,
    resume: bool = False,
    data_dir: str | Path | None = None,
    output_dir: str | Path | None = None,
    device: str | None = None,
    max_minutes: float | None = None,
    pause_minutes: float | None = None,
    report: Callable[[str], None] = report_to_stderr,
) -> TrainingResult:
    """Train a DPA4 model as a configuration file says.

    Parameters
    ----------
    path : path of a TOML file
        See :func:`md_gie.training.config.read_config`.
    resume : bool
        Go on from the state in the output folder.
    data_dir, output_dir : path, optional
        Folder that relative paths of frames start at, and folder of results; by default as the
        configuration says, relative to its own folder.
    device, max_minutes : optional
        Take the place of the values in the configuration.
    pause_minutes : float, optional
        Stop cleanly after this much wall time of this call, to be resumed later.
    report : callable
        Receives each line of progress.

    Returns
    -------
    TrainingResult

    Raises
    ------
    ConfigError
        If the configuration is wrong, or the output folder already holds a state and ``resume``
        is false.
    CheckpointError
        If ``[model]`` has an option that is not implemented, or the state cannot be resumed.
    StructureError
        If a frame cannot be used.
    """
    path = Path(path)
    config = _override(read_config(path), device, max_minutes)
    target = Path(output_dir) if output_dir else path.parent / config.run.output_dir
    if not resume and state_path(target, config.run.name).exists():
        raise ConfigError(
            f"{state_path(target, config.run.name)} exists already; resume that run, or name "
            "another run.name or run.output_dir",
            path=target,
        )
    model_config = DPA4Config.from_model_params(config.model)
    where = _device(config.run)
    base = Path(data_dir) if data_dir else path.parent
    train = _frames(config.data.train, base, model_config.type_map)
    valid = _frames(config.data.valid, base, model_config.type_map)
    if config.run.batch_size > len(train):
        raise ConfigError(
            f"{path}, [run]: batch_size = {config.run.batch_size}; there are {len(train)} training "
            "frames, take at most as many"
        )
    model = build_model(model_config, train, config.run.seed, where)
    if config.run.start_from is not None:
        _start_from(model, path.parent / config.run.start_from)
    report(f"{len(train)} + {len(valid)} frames, {_count(model)} parameters, {where}")
    trainer = Trainer(
        model, _graphs(train, model_config, where), _graphs(valid, model_config, where),
        config, target, report,
    )  # fmt: skip
    if resume:
        trainer.resume()
    errors = trainer.run(pause_minutes)
    model.load_state_dict(trainer.averaged_model().state_dict())
    model_path = target / f"{config.run.name}.pt"
    write_checkpoint(model_path, model)
    return TrainingResult(model_path, errors, finished=trainer.progress >= 1.0)


def build_model(
    config: DPA4Config, frames: Sequence[LabelledFrame], seed: int, device: torch.device
) -> DPA4:
    """DPA4 with starting parameters and the element energies of ``frames`` in ``out_bias``."""
    model = DPA4(config, dtype=torch.float32, device=device)
    initialize(model, config, seed)
    energies = torch.from_numpy(fit_element_energies(frames, config.type_map))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in _FIXED:
                parameter.requires_grad_(False)
            if name == "out_bias":
                parameter[0, :, 0] = energies
    return model


def _start_from(model: DPA4, path: Path) -> None:
    """Take the parameters of a checkpoint of the same shape, energy shifts included."""
    config, state = read_checkpoint(path)
    wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    different = [n for n in wanted if n not in state or tuple(state[n].shape) != wanted[n]]
    if different or config.type_map != model.config.type_map:
        what = f"parameter {different[0]!r}" if different else "type_map"
        raise ConfigError(
            f"[run] start_from: {path} has another {what} than [model]; start from a model with "
            "the same options",
            path=path,
        )
    model.load_state_dict(state)


def _frames(paths: Sequence[str], base: Path, type_map: Sequence[str]) -> list[LabelledFrame]:
    return read_frames([base / p for p in paths], type_map)


def _graphs(
    frames: Sequence[LabelledFrame], config: DPA4Config, device: torch.device
) -> list[FrameGraph]:
    return build_graphs(frames, config.type_map, config.rcut, device=device, dtype=torch.float32)


def _override(
    config: TrainingConfig, device: str | None, max_minutes: float | None
) -> TrainingConfig:
    changes: dict[str, object] = {}
    if device is not None:
        changes["device"] = device
    if max_minutes is not None:
        changes["max_minutes"] = max_minutes
    return dataclasses.replace(config, run=dataclasses.replace(config.run, **changes))  # type: ignore[arg-type]


def _device(run: RunConfig) -> torch.device:
    if run.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(run.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError("[run]: device = 'cuda', but no CUDA device is usable here; take 'auto'")
    return device


def _count(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
