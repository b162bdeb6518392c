"""Loading: names, options and their messages, and that no global state is touched."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from md_gie.engine import Engine, bundled_models, load_potential, resolve_model
from md_gie.engine.dpa4 import DPA4Engine
from md_gie.errors import CheckpointError
from md_gie.neighbors import Edges


def uses_fused_kernels(engine: Engine) -> bool:
    assert isinstance(engine, DPA4Engine)
    return engine.model._fused


def test_what_an_engine_tells(data: Path) -> None:
    engine = load_potential(data / "p1_scatter_degree.pt")
    assert engine.name == "p1_scatter_degree"
    assert engine.species == ("O", "H", "C")
    assert engine.cutoff == 4.5
    assert engine.device == torch.device("cpu") or torch.cuda.is_available()
    assert engine.dtype == torch.float32


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernels": "fast"}, "kernels = 'fast' is none of auto, triton, reference"),
        (
            {"kernels": "triton"},
            "kernels = 'triton' needs a CUDA device and Triton; .*; use 'auto' or 'reference'",
        ),
        ({"dtype": "float16"}, "dtype = 'float16' is none of float32, float64"),
        ({"dtype": torch.float64}, "dtype = torch.float64 is none of float32, float64"),
        ({"device": "abacus"}, "device = 'abacus' is not a device of md_gie; use auto, cpu"),
        ({"device": "cpu:5"}, "device = 'cpu:5', but there is one CPU; use cpu"),
        ({"device": "meta"}, "device = 'meta' is not a device of md_gie"),
        ({"device": None}, "device = None is not a device of md_gie"),
        ({"branch": "water"}, "has one model and no branch 'water'"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str, data: Path) -> None:
    with pytest.raises(ValueError, match=message):
        load_potential(data / "p0_smoke.pt", **options)


def test_cuda_without_a_device(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(
        ValueError, match="'cuda:1', but this PyTorch finds no CUDA device; use cpu"
    ):
        load_potential(data / "p0_smoke.pt", device="cuda:1")
    assert load_potential(data / "p0_smoke.pt", device="auto").device.type == "cpu"


def test_environment_overrides_kernels(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = data / "p0_smoke.pt"
    assert uses_fused_kernels(load_potential(path))
    monkeypatch.setenv("MD_GIE_KERNELS", "reference")
    assert not uses_fused_kernels(load_potential(path, kernels="auto"))
    monkeypatch.setenv("MD_GIE_KERNELS", "auto")
    assert uses_fused_kernels(load_potential(path, kernels="reference"))
    monkeypatch.setenv("MD_GIE_KERNELS", "warp")
    with pytest.raises(ValueError, match="kernels = 'warp' is none of"):
        load_potential(path)


def test_names_and_paths(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "water-s" in bundled_models()
    assert resolve_model("water-s").name == "water-s.pt"
    assert load_potential("water-s").species == ("O", "H")
    assert resolve_model(str(data / "p0_smoke.pt")) == data / "p0_smoke.pt"
    monkeypatch.chdir(tmp_path)
    for name in ("water-xl", "../models/water-s", str(tmp_path), ""):
        with pytest.raises(FileNotFoundError, match=r"not a bundled model \(.*water-s"):
            resolve_model(name)


def test_a_damaged_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "damaged.pt").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(CheckpointError, match=r"damaged\.pt cannot be read as a checkpoint"):
        load_potential(tmp_path / "damaged.pt")


STATE = """
import sys, random
import numpy as np
import torch
torch.set_num_threads(int(sys.argv[1]))
torch.set_float32_matmul_precision("high")
torch.manual_seed(5)
np.random.seed(5)
random.seed(5)
def state():
    return (
        torch.get_num_threads(), torch.get_num_interop_threads(), torch.get_default_dtype(),
        torch.is_grad_enabled(), torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(), torch.get_rng_state().tolist(),
        np.random.get_state()[1].tolist(), random.getstate(), np.geterr(), torch.get_printoptions()
        if hasattr(torch, "get_printoptions") else None,
    )
before = state()
import md_gie
assert state() == before, "import"
from md_gie.engine import load_potential
from md_gie.neighbors import NeighborCache
engine = load_potential(sys.argv[2])
assert state() == before, "load"
positions = np.random.default_rng(0).uniform(0, 9, (60, 3))
for _ in range(2):
    edges = NeighborCache(engine.cutoff, 0.5).update(positions, np.diag([9.0] * 3), [True] * 3)
    assert state() == before, "edges"
    result = engine.evaluate(torch.arange(60) % 2, edges)
    assert state() == before, "evaluate"
    assert edges.n_edges > 2000
assert not torch.cuda.is_initialized()
"""


@pytest.mark.parametrize("n_threads", [1, 2])
def test_no_global_state_is_changed(n_threads: int, data: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    command = [sys.executable, "-c", STATE, str(n_threads), str(data / "p0_smoke.pt")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_engines_of_one_file_do_not_share_parameters(
    data: Path, edges_of: Callable[..., Edges]
) -> None:
    one, two = (load_potential(data / "p0_smoke.pt", dtype=d) for d in ("float64", "float32"))
    edges = edges_of(np.array([[0.0, 0, 0], [1.0, 0.2, 0]]))
    types = torch.tensor([0, 1])
    before = one.evaluate(types, edges).energy
    two.evaluate(types, edges)
    assert torch.equal(one.evaluate(types, edges).energy, before)
