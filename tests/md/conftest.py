"""An argon crystal, the toy engine that moves it, and a run configuration for both."""

import importlib.util
import io
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import numpy as np
import pytest
import torch

import md_gie.engine
from md_gie.md import run_from_config
from md_gie.md.config import GuardsTable
from md_gie.md.forces import GuardedForces
from md_gie.md.freedom import maxwell_boltzmann
from md_gie.md.run import RunOutcome
from md_gie.md.state import MDState
from md_gie.md.timing import Clock
from md_gie.neighbors import NeighborCache
from md_gie.structure import Structure, write_structure

CONFIG = """
[model]
name = "toy.pt"

[structure]
file = "argon.extxyz"

[neighbors]
skin_A = 0.4

[md]
ensemble = "nvt-langevin"
timestep_fs = 4.0
n_steps = 60
temperature_K = 60
friction_per_ps = 2
seed = 7

[output]
trajectory = "argon.h5md"
trajectory_every = 2
thermo_every = 20
restart_every = 10
"""


@pytest.fixture(scope="session")
def toy() -> ModuleType:
    path = Path(__file__).with_name("toy.py")
    spec = importlib.util.spec_from_file_location("toy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def argon() -> Structure:
    """A face-centred cubic cell of 32 atoms, slightly disordered."""
    base = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]) / 2
    corners = np.array([[i, j, k] for i in range(2) for j in range(2) for k in range(2)])
    positions = (corners[:, None] + base).reshape(-1, 3) * 5.4
    positions += np.random.default_rng(1).normal(scale=0.05, size=positions.shape)
    return Structure(np.full(32, 18), positions, np.eye(3) * 10.8, np.full(3, True))


@pytest.fixture
def make_forces(toy: ModuleType, argon: Structure) -> Callable[..., GuardedForces]:
    def make(skin: float = 0.4, **guards: float) -> GuardedForces:
        engine = toy.ToyEngine()
        cache = NeighborCache(engine.cutoff, skin)
        types = engine.types_of(argon.numbers.tolist())
        clock = Clock(engine.device)
        return GuardedForces(engine, cache, types, (True,) * 3, GuardsTable(**guards), clock)

    return make


@pytest.fixture
def start(argon: Structure) -> Callable[[GuardedForces, float], MDState]:
    def make(forces: GuardedForces, temperature_K: float) -> MDState:
        masses = torch.tensor(argon.masses)
        velocities = maxwell_boltzmann(masses, temperature_K, seed=3)
        positions, cell = torch.tensor(argon.positions), torch.tensor(argon.cell)
        return MDState.start(positions, velocities, masses, cell, forces)

    return make


@pytest.fixture
def run_folder(
    tmp_path: Path, argon: Structure, toy: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A current directory with ``argon.toml``, whose model is the toy."""
    write_structure(tmp_path / "argon.extxyz", argon)
    (tmp_path / "argon.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy.pt").write_text("a model file")
    monkeypatch.setattr(md_gie.engine, "load_potential", toy.load_toy)
    return tmp_path


@pytest.fixture
def edit_config(run_folder: Path) -> Callable[..., Path]:
    def edit(*changes: tuple[str, str], **named: Any) -> Path:
        path = run_folder / "argon.toml"
        text = path.read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path.write_text(text)
        return path

    return edit


@pytest.fixture
def run() -> Callable[..., tuple[RunOutcome, str, str]]:
    """Run a configuration, and return the outcome and what went to stdout and to stderr."""

    def call(path: Path | str = "argon.toml", **options: Any) -> tuple[RunOutcome, str, str]:
        out, err = io.StringIO(), io.StringIO()
        outcome = run_from_config(path, stdout=out, stderr=err, **options)
        return outcome, out.getvalue(), err.getvalue()

    return call


@pytest.fixture
def contents() -> Callable[[Path], dict[str, bytes]]:
    """Return every dataset of a trajectory that a run determines, as bytes."""

    def read(path: Path) -> dict[str, bytes]:
        found = {}

        def visit(name: str, item: object) -> None:
            if isinstance(item, h5py.Dataset) and name != "md_gie/runs":
                found[name] = item[()].tobytes()

        with h5py.File(path) as file:
            file.visititems(visit)
        return found

    return read
