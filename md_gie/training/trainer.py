"""Trainer: updates, validation, record and checkpoints of one training run."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from md_gie.errors import CheckpointError, SimulationError
from md_gie.training.captured import Capacity, CapturedStep
from md_gie.training.config import TrainingConfig
from md_gie.training.data import Batch, FrameGraph, batch_indices, collate
from md_gie.training.initialize import is_matrix
from md_gie.training.loss import Prediction, energy_weight, predict, training_loss
from md_gie.training.metrics import (
    Errors,
    ErrorSums,
    append_record,
    drop_records_after,
    evaluate,
)
from md_gie.training.schedule import ParameterAverage, learning_rate
from md_gie.training.state import TrainingState, read_state, state_path, write_state

# What may differ between the sessions of one run: where and how long, not what.
_FREE_KEYS = ("output_dir", "device", "log_every", "validate_every", "checkpoint_every")
# A validation error so many times the best one ends the run before it costs more time.
_DIVERGED = 10.0
_HEADER = (
    f"{'step':>8} {'progress':>8} {'minutes':>8} {'rate':>9}   "
    f"{'force RMSE':>10} {'MAE meV/Å':>10} {'energy RMSE':>11} {'MAE meV/atom':>12}"
)


def report_to_stderr(line: str) -> None:
    """Show one line of progress."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class Trainer:
    """One training run of a model on labelled frames.

    Parameters
    ----------
    model : nn.Module
        Called as ``model(types, edges, vectors) -> atomic energies (N,) float64``; parameters
        that do not require a gradient stay as they are.
    train, valid : sequences of FrameGraph
        Frames on the model's device.
    config : TrainingConfig
    output_dir : Path
        Folder for ``<name>.state.pt`` and ``<name>.jsonl``; made if missing.
    report : callable
        Receives each line of progress.
    """

    def __init__(
        self,
        model: nn.Module,
        train: Sequence[FrameGraph],
        valid: Sequence[FrameGraph],
        config: TrainingConfig,
        output_dir: Path,
        report: Callable[[str], None] = report_to_stderr,
    ) -> None:
        self.model = model.train()
        self.config = config
        self.step = 0
        self._train, self._valid = train, valid
        self._report = report
        output_dir.mkdir(parents=True, exist_ok=True)
        self._state_path = state_path(output_dir, config.run.name)
        self._record_path = output_dir / f"{config.run.name}.jsonl"
        self._named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        self._parameters = [p for _, p in self._named]
        device = self._parameters[0].device
        self._rate = torch.zeros((), dtype=torch.float32, device=device)
        self._energy_weight = torch.zeros((), dtype=torch.float64, device=device)
        self._optimizer = self._make_optimizer()
        self._step_on = self._choose_step()
        self._average = ParameterAverage(model, config.optimizer.ema_decay)
        self._sums = ErrorSums(train[0].types.device)
        self._best = math.inf
        self._elapsed_before = 0.0
        self._start = time.monotonic()

    @property
    def elapsed_seconds(self) -> float:
        """Wall time of the run so far, earlier sessions included."""
        return self._elapsed_before + time.monotonic() - self._start

    @property
    def progress(self) -> float:
        """Fraction of the run that is done, by steps or by wall time; at least 1 at the end."""
        run = self.config.run
        by_time = self.elapsed_seconds / (60 * run.max_minutes) if run.max_minutes else 0.0
        return max(self.step / run.steps, by_time)

    def run(self, pause_minutes: float | None = None) -> Errors:
        """Train until the end or, with ``pause_minutes``, for that long.

        Either way the averaged parameters are validated and the state is written.

        Raises
        ------
        SimulationError
            If errors are no longer finite; the last written state is intact.
        """
        run = self.config.run
        self._start, self._elapsed_before = time.monotonic(), self.elapsed_seconds
        self._report(_HEADER)
        with _matmul_precision("high" if run.tf32 else "highest"):
            while (progress := self.progress) < 1.0:
                if pause_minutes is not None and self._session_minutes() >= pause_minutes:
                    break
                self._update(progress)
                if self.step % run.log_every == 0:
                    self._log_training(progress)
                if self.step % run.validate_every == 0 and self.step < run.steps:
                    self.validate()
                if self.step % run.checkpoint_every == 0:
                    self.write_state()
        errors = self.validate()
        self.write_state()
        return errors

    def averaged_model(self) -> nn.Module:
        """Copy of the model with the averaged parameters, in evaluation mode."""
        return self._average.averaged(self.model).eval()

    def validate(self) -> Errors:
        """Validate the averaged parameters, report and record the errors."""
        errors = evaluate(self.averaged_model(), self._valid, self.config.run.batch_size)
        self._record("valid", self.progress, errors)
        self._best = min(self._best, errors.force_rmse)
        if not errors.force_rmse <= _DIVERGED * self._best:
            raise SimulationError(
                f"the force error went from {self._best:.1f} to {errors.force_rmse:.3g} meV/Å at "
                f"step {self.step}; lower optimizer.learning_rate (now "
                f"{self.config.optimizer.learning_rate:g}) and resume from the last state",
                step=self.step,
            )
        return errors

    def write_state(self) -> None:
        """Write everything that :meth:`resume` needs."""
        state = TrainingState(
            step=self.step,
            elapsed_seconds=self.elapsed_seconds,
            model={n: p.detach() for n, p in self._named},
            average=self._average.values,
            optimizer=self._optimizer.state_dict(),
            settings=self.config.as_dict(),
        )
        write_state(self._state_path, state)

    def resume(self) -> None:
        """Continue from the last written state: the updates that follow are the same, bit for bit.

        Raises
        ------
        CheckpointError
            If there is no state, or it belongs to a run with other settings.
        """
        state = read_state(self._state_path)
        changed = _differences(state.settings, self.config.as_dict())
        if changed:
            raise CheckpointError(
                f"{self._state_path}: was written with other settings ({', '.join(changed)}); "
                "restore them, or start anew in another output_dir",
                keys=changed,
            )
        with torch.no_grad():
            for name, parameter in self._named:
                parameter.copy_(state.model[name])
        self._average.load(state.average)
        self._optimizer.load_state_dict(state.optimizer)
        self.step = state.step
        self._elapsed_before, self._start = state.elapsed_seconds, time.monotonic()
        drop_records_after(self._record_path, state.step)

    def _update(self, progress: float) -> None:
        config = self.config
        indices = batch_indices(len(self._train), config.run.batch_size, self.step, config.run.seed)
        batch = collate([self._train[i] for i in indices])
        self._set_rate(learning_rate(config.optimizer, self.step, progress))
        self._energy_weight.fill_(energy_weight(config.loss, progress))
        prediction = self._step_on(batch)
        self._average.update(self.step)
        self._sums.add(prediction, batch)
        self.step += 1

    def _step_eagerly(self, batch: Batch) -> Prediction:
        prediction = predict(self.model, batch, create_graph=True)
        loss = training_loss(prediction, batch, self.config.loss, self._energy_weight)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(self._parameters, self.config.optimizer.clip_norm)
        for parameter in self._parameters:
            # A batch that overflows float32 must not end the run; the log counts such batches.
            if parameter.grad is not None:
                parameter.grad.copy_(torch.where(torch.isfinite(norm), parameter.grad, 0.0))
        self._optimizer.step()
        return Prediction(prediction.energies.detach(), prediction.forces.detach())

    def _set_rate(self, rate: float) -> None:
        for group in self._optimizer.param_groups:
            # A captured step reads the rate from a tensor, which a resumed state may have replaced.
            group["lr"] = self._rate.fill_(rate) if self._rate.is_cuda else rate

    def _choose_step(self) -> Callable[[Batch], Prediction]:
        """Take the plain step on a CPU, and on a GPU, where launches are what costs, its graph."""
        if not self._parameters[0].is_cuda:
            return self._step_eagerly
        size = self.config.run.batch_size
        most_atoms = sorted(graph.edges.n_atoms for graph in self._train)[-size:]
        most_edges = sorted(graph.edges.n_edges for graph in self._train)[-size:]
        capacity = Capacity(sum(most_atoms) + 1, sum(most_edges))
        return CapturedStep(self._step_eagerly, capacity)

    def _make_optimizer(self) -> torch.optim.Optimizer:
        optimizer = self.config.optimizer
        matrices = [p for n, p in self._named if is_matrix(n)]
        others = [p for n, p in self._named if not is_matrix(n)]
        groups: list[dict[str, Any]] = [
            {"params": matrices, "weight_decay": optimizer.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        on_gpu = self._parameters[0].is_cuda
        return torch.optim.AdamW(
            [g for g in groups if g["params"]],
            lr=self._rate if on_gpu else optimizer.learning_rate,
            fused=on_gpu,
            capturable=on_gpu,
        )

    def _session_minutes(self) -> float:
        return (time.monotonic() - self._start) / 60

    def _log_training(self, progress: float) -> None:
        n_bad = self._sums.n_bad()
        errors = self._sums.read()
        if n_bad:
            self._report(f"{n_bad} of the last batches gave numbers that are not finite")
        if n_bad > max(1, self.config.run.log_every // 20):
            raise SimulationError(
                f"errors are no longer finite at step {self.step}; lower optimizer.learning_rate "
                f"(now {self.config.optimizer.learning_rate:g}) or optimizer.clip_norm",
                step=self.step,
            )
        self._record("train", progress, errors)

    def _record(self, kind: str, progress: float, errors: Errors) -> None:
        rate = learning_rate(self.config.optimizer, self.step, progress)
        minutes = self.elapsed_seconds / 60
        self._report(
            f"{self.step:8d} {progress:8.1%} {minutes:8.2f} {rate:9.2e}   "
            f"{errors.force_rmse:10.2f} {errors.force_mae:10.2f} "
            f"{errors.energy_rmse:11.3f} {errors.energy_mae:12.3f}  {kind}"
        )
        append_record(
            self._record_path,
            {
                "kind": kind,
                "step": self.step,
                "progress": progress,
                "minutes": minutes,
                "learning_rate": rate,
                "force_rmse_meV_A": errors.force_rmse,
                "force_mae_meV_A": errors.force_mae,
                "energy_rmse_meV_atom": errors.energy_rmse,
                "energy_mae_meV_atom": errors.energy_mae,
            },
        )


def _differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    changed = []
    for section in new:
        for key in {**old.get(section, {}), **new[section]}:
            if section == "run" and key in _FREE_KEYS:
                continue
            if old.get(section, {}).get(key) != new[section].get(key):
                changed.append(f"{section}.{key}")
    return sorted(changed)


@contextmanager
def _matmul_precision(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
