"""Errors of a model on labelled frames, and their record as JSON lines."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from md_gie.training.data import Batch, FrameGraph, collate
from md_gie.training.loss import Prediction, predict


class Errors(NamedTuple):
    """Errors on a set of frames: forces per component in meV/Å, energies in meV per atom."""

    force_rmse: float
    force_mae: float
    energy_rmse: float
    energy_mae: float


class ErrorSums:
    """Sums of errors that stay on the device until they are read."""

    def __init__(self, device: torch.device) -> None:
        self._sums = torch.zeros(6, dtype=torch.float64, device=device)
        self._n_bad = torch.zeros((), dtype=torch.int64, device=device)

    def add(self, prediction: Prediction, batch: Batch) -> None:
        """Add a batch; nothing waits for the device."""
        force = (prediction.forces - batch.forces).detach().double()
        energy = ((prediction.energies - batch.energies) / batch.n_atoms).detach()
        moments = torch.stack([*_moments(force), *_moments(energy)])
        finite = torch.isfinite(moments).all()
        self._sums += torch.where(finite, moments, 0.0)
        self._n_bad += ~finite

    def n_bad(self) -> int:
        """Batches with errors that are not finite since the start or the last read."""
        return int(self._n_bad)

    def read(self) -> Errors:
        """Errors of all other batches since the start or the last read; then start anew."""
        force_2, force_1, force_n, energy_2, energy_1, energy_n = self._sums.tolist()
        self._sums.zero_()
        self._n_bad.zero_()
        if force_n == 0:
            return Errors(math.nan, math.nan, math.nan, math.nan)
        return Errors(
            force_rmse=1e3 * (force_2 / force_n) ** 0.5,
            force_mae=1e3 * force_1 / force_n,
            energy_rmse=1e3 * (energy_2 / energy_n) ** 0.5,
            energy_mae=1e3 * energy_1 / energy_n,
        )


def evaluate(model: nn.Module, graphs: Sequence[FrameGraph], batch_size: int) -> Errors:
    """Errors of ``model`` on ``graphs``, in full float32 products whatever training uses."""
    sums = ErrorSums(graphs[0].types.device)
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        for start in range(0, len(graphs), batch_size):
            batch = collate(graphs[start : start + batch_size])
            sums.add(predict(model, batch, create_graph=False), batch)
    finally:
        torch.set_float32_matmul_precision(precision)
    return sums.read()


def append_record(path: Path, record: dict[str, Any]) -> None:
    """Append one line of JSON."""
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(record) + "\n")


def drop_records_after(path: Path, step: int) -> None:
    """Remove the lines of a run that went on beyond its last checkpoint."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line + "\n")
        except ValueError:  # a line cut by a kill
            continue
    path.write_text("".join(kept), encoding="utf-8")


def _moments(errors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    count = torch.full((), errors.numel(), dtype=torch.float64, device=errors.device)
    return errors.square().sum(), errors.abs().sum(), count
