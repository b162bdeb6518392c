"""Compiled steps: one graph for all sizes, the numbers of the eager step, packages."""

import itertools
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from ase.build import molecule
from torch.testing import assert_close

from md_gie import NeighborCache, load_potential
from md_gie.cli import main
from md_gie.engine import trial
from md_gie.engine.compiled import CompiledStep, trace
from md_gie.engine.graph import GROWTH, SMALLEST, capacity_of
from md_gie.engine.packaged import describe_device, is_package
from md_gie.engine.trial import try_out
from md_gie.errors import CheckpointError, CompilationError

torch_warns = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
)
MOLECULES = ["CH3CH2OH", "H2O", "C6H6", "CH4"]


@pytest.fixture(scope="module")
def checkpoint() -> Path:
    return Path(__file__).parent.parent / "data" / "dpa4" / "p0_smoke.pt"


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> Any:
    return load_potential(checkpoint, device="cpu", dtype="float64")


@pytest.fixture(scope="module")
def graph(engine: Any) -> torch.fx.GraphModule:
    return trace(engine.step, engine.device)


def padded(edges: Any, extra: int) -> Any:
    """The same edges with padding behind them."""
    index = {
        name: torch.nn.functional.pad(getattr(edges, name), (0, extra))
        for name in ("src", "dst", "source_order")
    }
    far = torch.tensor([[0.0, 0.0, 99.0]], dtype=torch.float64).expand(extra, 3)
    return edges._replace(vectors=torch.cat([edges.vectors, far]), **index)


def inputs(engine: Any, name: str) -> tuple[Any, Any]:
    atoms = molecule(name, vacuum=4.0)
    cache = NeighborCache(engine.cutoff)
    edges = cache.update(atoms.positions, atoms.cell.array, atoms.pbc)
    return engine.types_of(atoms.numbers), edges


@pytest.mark.parametrize("name", MOLECULES)
def test_traced_graph_gives_the_bits_of_the_eager_step(
    name: str, engine: Any, graph: torch.fx.GraphModule
) -> None:
    types, edges = inputs(engine, name)
    for got, want in zip(graph(types, *edges), engine.step(types, edges), strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("extra", [1, 300])
def test_padding_changes_nothing(extra: int, engine: Any) -> None:
    types, edges = inputs(engine, "CH3CH2OH")
    want, got = engine.step(types, edges), engine.step(types, padded(edges, extra))
    assert torch.equal(got.energies, want.energies)
    assert torch.equal(got.forces, want.forces)
    assert_close(got.virial, want.virial, rtol=1e-12, atol=1e-12)
    assert not got.gradient[edges.n_edges :].any()


@torch_warns
def test_one_compilation_serves_all_sizes(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # What is tested are the guards on sizes; code generation has the compiler's own tests.
    import torch._inductor.compile_fx as inductor

    monkeypatch.setattr(inductor, "compile_fx", lambda graph, _inputs: graph.forward)
    torch._dynamo.reset()
    step = CompiledStep(engine.step, engine.device)
    for name in MOLECULES:
        types, edges = inputs(engine, name)
        for got, want in zip(step(types, edges), engine.step(types, edges), strict=True):
            assert torch.equal(got, want)
    assert step.n_compilations == 1


def test_capacities_grow_by_the_stated_factor() -> None:
    capacities = sorted({capacity_of(n) for n in range(1, 200_000, 37)})
    assert capacities[0] == SMALLEST
    for smaller, larger in itertools.pairwise(capacities):
        assert smaller < larger <= smaller * GROWTH + 64
        assert capacity_of(smaller) == smaller
        assert capacity_of(smaller + 1) == larger


OPERATOR = """
import sys, torch, md_gie.ops
run = torch._inductor.aoti_load_package(sys.argv[1])
for n in (2, 5, 40):
    torch.manual_seed(n)
    row_ptr = torch.arange(0, 3 * n + 1, 3)
    coupling, radial = torch.randn(3 * n, 8), torch.randn(3 * n, 2, 16)
    want = md_gie.ops.zonal_scatter(coupling, radial, row_ptr)
    assert torch.equal(run(coupling, radial, row_ptr), want), n
print("all equal")
"""


@torch_warns
def test_operator_in_a_package_of_a_fresh_process(tmp_path: Path) -> None:
    from md_gie.ops import zonal_scatter

    class Scatter(torch.nn.Module):
        def forward(self, coupling: Any, radial: Any, row_ptr: Any) -> Any:
            return zonal_scatter(coupling, radial, row_ptr)

    rows, edges = torch.export.Dim("rows", min=3), torch.export.Dim("edges", min=2)
    arguments = (torch.randn(12, 8), torch.randn(12, 2, 16), torch.arange(0, 13, 3))
    program = torch.export.export(
        Scatter(), arguments, dynamic_shapes=({0: edges}, {0: edges}, {0: rows})
    )
    package = tmp_path / "scatter.pt2"
    torch._inductor.aoti_compile_and_package(program, package_path=str(package))
    done = subprocess.run(
        [sys.executable, "-c", OPERATOR, str(package)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "all equal", done.stderr[-2000:]


def make_package(path: Path, checkpoint: Path, **changes: Any) -> Path:
    about = {
        "format": 1, "model": "p0_smoke", "dtype": "float32", "branch": None, "tf32": False,
        "species": ["O", "H", "C"], "cutoff_A": 6.0, "kernels": "auto",
        "made_for": {**describe_device(torch.device("cpu")), "torch": "0.1"},
    } | changes  # fmt: skip
    with zipfile.ZipFile(path, "w") as package:
        package.writestr("about.json", json.dumps(about))
        package.write(checkpoint, "model.pt")
        package.writestr("step.pt2", b"made elsewhere")
    return path


def test_package_of_another_machine_runs_uncompiled(tmp_path: Path, checkpoint: Path) -> None:
    package = make_package(tmp_path / "smoke.gie", checkpoint)
    assert is_package(package)
    assert not is_package(checkpoint)
    with pytest.warns(UserWarning, match=r"compiled for torch '0.1' instead of .*runs uncompiled"):
        there = load_potential(package, device="cpu")
    here = load_potential(checkpoint, device="cpu")
    types, edges = inputs(here, "CH4")
    assert there.name == "p0_smoke"
    assert torch.equal(there.evaluate(types, edges).forces, here.evaluate(types, edges).forces)


def test_packages_that_cannot_serve(tmp_path: Path, checkpoint: Path) -> None:
    package = make_package(tmp_path / "smoke.gie", checkpoint)
    with pytest.raises(ValueError, match="compiled with dtype = 'float32', not 'float64'"):
        load_potential(package, device="cpu", dtype="float64")
    later = make_package(tmp_path / "later.gie", checkpoint, format=9)
    with pytest.raises(CheckpointError, match="format 9, this md_gie reads 1"):
        load_potential(later, device="cpu")


def test_compile_replaces_no_file_unasked(
    tmp_path: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept.gie"
    kept.write_text("mine")
    assert main(["compile", str(checkpoint), "-o", str(kept)]) == 2
    assert "add --overwrite" in capsys.readouterr().err
    assert kept.read_text() == "mine"
    assert main(["compile", str(checkpoint), "-o", str(tmp_path / "none" / "x.gie")]) == 2
    assert "is not a folder" in capsys.readouterr().err


def test_a_step_that_cannot_be_loaded_makes_no_package(tmp_path: Path, checkpoint: Path) -> None:
    engine = load_potential(checkpoint, device="cpu")
    compiled = tmp_path / "step.pt2"
    compiled.write_bytes(b"damaged")
    with pytest.raises(CompilationError, match=r"a fresh process that loads it fails: .*without a"):
        try_out(compiled, engine.step, torch.device("cpu"), engine.cutoff)


def test_a_step_that_crashes_makes_no_package(
    tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "_CHILD", "import os; os.abort()")
    engine = load_potential(checkpoint, device="cpu")
    with pytest.raises(CompilationError, match="is ended by SIGABRT"):
        try_out(tmp_path / "step.pt2", engine.step, torch.device("cpu"), engine.cutoff)
