"""Small labelled systems and a pair potential that trains in milliseconds."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from md_gie.neighbors import Edges
from md_gie.structure import LabelledFrame
from md_gie.training.config import (
    DataConfig,
    LossConfig,
    OptimizerConfig,
    RunConfig,
    TrainingConfig,
)
from md_gie.training.data import FrameGraph, build_graphs

CUTOFF = 4.0
TYPE_MAP = ("O", "H")


class PairPotential(nn.Module):
    """Sum over edges of Gaussians of the distance, with a height for each pair of types."""

    def __init__(self, seed: int = 0, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(0.1 * torch.randn(4, 6, generator=generator, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(2, dtype=dtype))
        self.out_bias = nn.Parameter(torch.tensor([-3.0, -1.0], dtype=torch.float64))
        self.out_bias.requires_grad_(False)

    def forward(self, types: Tensor, edges: Edges, vectors: Tensor) -> Tensor:
        distance = vectors.square().sum(dim=1).sqrt()
        centres = torch.arange(6, dtype=vectors.dtype)
        basis = torch.exp(-((distance[:, None] - 0.7 * centres) ** 2))
        envelope = (1 - (distance / CUTOFF).clamp(max=1.0)).square()
        pair = types[edges.dst.long()] * 2 + types[edges.src.long()]
        energies = (basis * self.weight[pair]).sum(dim=1).tanh() * envelope
        atomic = self.bias[types].index_add(0, edges.dst, energies)
        return atomic.double() + self.out_bias[types]


@pytest.fixture
def pair_potential() -> Callable[..., PairPotential]:
    return PairPotential


def make_frames(n_frames: int, seed: int = 3) -> list[LabelledFrame]:
    """Random periodic frames of 5 or 6 atoms, labelled by a Lennard-Jones-like potential."""
    rng = np.random.default_rng(seed)
    frames = []
    for number in range(n_frames):
        symbols = ("O", "H", "H", "O", "H", "H")[: 5 + number % 2]
        cell = np.diag([5.0, 5.5, 6.0]) + 0.2 * rng.normal(size=(3, 3))
        grid = np.array([[x, y, z] for x in (0.2, 0.7) for y in (0.2, 0.7) for z in (0.2, 0.7)])
        positions = (grid[: len(symbols)] + 0.04 * rng.normal(size=(len(symbols), 3))) @ cell
        frames.append(
            LabelledFrame(
                symbols, positions, cell, (True, True, True), 0.0, np.zeros_like(positions)
            )
        )
    graphs = build_graphs(frames, TYPE_MAP, CUTOFF, device=torch.device("cpu"), dtype=torch.float64)
    return [_label(frame, graph) for frame, graph in zip(frames, graphs, strict=True)]


def _label(frame: LabelledFrame, graph: FrameGraph) -> LabelledFrame:
    vectors = graph.edges.vectors.requires_grad_()
    distance = vectors.square().sum(dim=1).sqrt()
    charge = torch.where(graph.types == 0, -0.8, 0.4).double()
    dst, src = graph.edges.dst.long(), graph.edges.src.long()
    pair = (2.0 / distance) ** 6 + 2 * charge[dst] * charge[src] / distance
    energy = (0.5 * pair * (1 - distance / CUTOFF).square()).sum()
    (gradient,) = torch.autograd.grad(energy, vectors)
    forces = torch.zeros(len(frame.symbols), 3, dtype=torch.float64)
    forces.index_add_(0, dst, gradient).index_add_(0, src, -gradient)
    shift = -3.0 * frame.symbols.count("O") - 1.0 * frame.symbols.count("H")
    return frame._replace(energy=energy.item() + shift, forces=forces.numpy())


@pytest.fixture(scope="session")
def frames() -> list[LabelledFrame]:
    return make_frames(10)


@pytest.fixture
def graphs(frames: list[LabelledFrame]) -> list[FrameGraph]:
    return build_graphs(frames, TYPE_MAP, CUTOFF, device=torch.device("cpu"), dtype=torch.float32)


@pytest.fixture
def double_graphs(frames: list[LabelledFrame]) -> list[FrameGraph]:
    return build_graphs(frames, TYPE_MAP, CUTOFF, device=torch.device("cpu"), dtype=torch.float64)


@pytest.fixture
def write_xyz() -> Callable[[Path, list[LabelledFrame]], Path]:
    def write(path: Path, frames: list[LabelledFrame]) -> Path:
        lines = []
        for frame in frames:
            cell = " ".join(f"{x:.12f}" for x in frame.cell.ravel())
            lines.append(f"{len(frame.symbols)}")
            lines.append(
                f'Lattice="{cell}" Properties=species:S:1:pos:R:3:forces:R:3 '
                f'energy={frame.energy:.12f} pbc="T T T"'
            )
            for symbol, x, f in zip(frame.symbols, frame.positions, frame.forces, strict=True):
                lines.append(" ".join([symbol, *(f"{v:.12f}" for v in (*x, *f))]))
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write


@pytest.fixture
def settings() -> Callable[..., TrainingConfig]:
    """A short training run; keyword arguments change entries of [run]."""

    def make(**run: object) -> TrainingConfig:
        values: dict[str, object] = {
            "name": "tiny", "output_dir": "unused", "steps": 30, "batch_size": 3, "device": "cpu",
            "log_every": 5, "validate_every": 10, "checkpoint_every": 10,
        }  # fmt: skip
        return TrainingConfig(
            data=DataConfig(train=["train.extxyz"], valid=["valid.extxyz"]),
            loss=LossConfig(energy_weight_start=1.0, energy_weight_end=10.0),
            optimizer=OptimizerConfig(
                learning_rate=0.02, final_learning_rate=0.001, warmup_steps=4, weight_decay=0.01
            ),
            run=RunConfig(**{**values, **run}),
            model={},
        )

    return make
