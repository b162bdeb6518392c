"""``md-gie check`` and ``md-gie relax``: statuses, tables, one sentence for a mistake."""

from pathlib import Path

import ase.io
import numpy as np
import pytest
from ase import Atoms

from md_gie.check import dynamics
from md_gie.cli import main

MODEL = Path(__file__).parents[1] / "data" / "dpa4" / "p1_version10.pt"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with ``a.extxyz``, a crystal of oxygen and hydrogen."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dynamics, "_MOST_STEPS", 16)
    atoms = Atoms("OHOH", cell=np.eye(3) * 3.6, pbc=True)
    atoms.positions = [[0, 0, 0], [0, 0, 1.8], [1.7, 1.9, 0], [1.8, 1.8, 1.7]]
    ase.io.write("a.extxyz", atoms)
    return tmp_path


def check(*options: str) -> int:
    arguments = ["check", "a.extxyz", "--model", str(MODEL), "--device", "cpu", "--no-compile"]
    return main([*arguments, *options])


def test_status_tells_whether_all_passed(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("--timestep-fs", "0.1", "--dtype", "float64") == 0
    shown = capsys.readouterr()
    assert "checks passed (all passed" in shown.out
    assert "derivatives …" in shown.err
    assert check("--timestep-fs", "4", "--dtype", "float64") == 1
    assert "FAIL" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--timestep-fs", "0"], "a timestep of 0 fs cannot be run; give 0 to 100"),
        (["--temperature-K", "-1"], "-1 K is no temperature"),
        (["--dtype", "float16"], "dtype = 'float16' is none of float32, float64"),
        (["--device", "abacus"], "device = 'abacus' is not a device"),
        (["--model", "nothing"], "there is no model file 'nothing'"),
    ],
)
def test_mistakes_get_one_sentence(
    capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert check(*options) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err.splitlines()[-1]


def test_relax_has_a_status_too(capsys: pytest.CaptureFixture[str]) -> None:
    text = f"""
[model]
name = "{MODEL}"
device = "cpu"
[structure]
file = "a.extxyz"
[relax]
max_force_eV_A = 50
max_steps = 1
[output]
structure = "b.extxyz"
"""
    Path("a.toml").write_text(text)
    assert main(["relax", "a.toml"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("converged after 0 steps")
    assert main(["relax", "a.toml"]) == 2
    assert "b.extxyz exists" in capsys.readouterr().err
    Path("a.toml").write_text(text.replace("= 50", "= 0.001"))
    assert main(["relax", "a.toml", "--overwrite"]) == 1
    assert "not converged after 1 steps" in capsys.readouterr().out
