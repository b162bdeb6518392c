"""Dry runs: what they say, and that they write nothing."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from md_gie.cli import main
from md_gie.errors import ConfigError, StructureError, TrajectoryError
from md_gie.md import plan_from_config
from md_gie.md.run import RunOutcome


def plan(**options: object) -> str:
    out = io.StringIO()
    plan_from_config("argon.toml", stdout=out, stderr=io.StringIO(), **options)
    return out.getvalue()


def test_says_what_would_run_and_writes_nothing(run_folder: Path) -> None:
    before = sorted(path.name for path in run_folder.iterdir())
    text = plan(n_steps=1000)
    assert sorted(path.name for path in run_folder.iterdir()) == before
    assert "nvt-langevin at 60 K, 96 degrees of freedom, steps 0 to 1000 of 4 fs" in text
    found = re.search(r"speed: ([\d.]+) ms/step over 5 trial steps, \d+ edges; ([\d.e+]+) ns", text)
    assert found is not None
    speed, ns_per_day = map(float, found.groups())
    assert ns_per_day == pytest.approx(4e-6 * 86.4e6 / speed, rel=0.01)
    assert re.search(r"memory: host \d+ MiB", text)
    assert text.endswith("dry run: no file was written\n")


def test_size_of_the_trajectory_is_right(
    run_folder: Path, run: Callable[..., tuple[RunOutcome, str, str]]
) -> None:
    text = plan(n_steps=400)
    found = re.search(r"trajectory: 201 frames of ([\d.]+) kB, ([\d.]+) MB\n", text)
    assert found is not None
    run(n_steps=200)
    small = Path("argon.h5md").stat().st_size
    run(n_steps=400, overwrite=True)
    grown = Path("argon.h5md").stat().st_size - small
    # Observables grow by whole chunks.
    assert float(found[1]) * 1e3 == pytest.approx(grown / 100, rel=0.35)
    assert float(found[2]) == pytest.approx(201 * float(found[1]) / 1e3, abs=0.06)


def test_refuses_what_a_run_refuses(
    run_folder: Path,
    edit_config: Callable[..., Path],
    run: Callable[..., tuple[RunOutcome, str, str]],
) -> None:
    run(n_steps=2)
    with pytest.raises(TrajectoryError, match=r"argon.h5md exists"):
        plan()
    assert "speed" in plan(overwrite=True)
    assert Path("argon.h5md").exists()
    edit_config(("timestep_fs", "timestep"))
    with pytest.raises(ConfigError, match="did you mean timestep_fs"):
        plan()
    edit_config(("timestep", "timestep_fs"))
    Path("argon.extxyz").write_text("1\n\nXe 0 0 0\n")
    with pytest.raises(StructureError, match="no argon"):
        plan(overwrite=True)


def test_command_line(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "argon.toml", "--dry-run", "--steps", "10"]) == 0
    assert "steps 0 to 10" in capsys.readouterr().out
    assert main(["run", "argon.toml", "--dry-run", "--resume"]) == 2
    assert "leave out --resume" in capsys.readouterr().err
    assert not list(run_folder.glob("*.h5md"))
