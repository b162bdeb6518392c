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
    run_folder: Path,
    edit_config: Callable[..., Path],
    run: Callable[..., tuple[RunOutcome, str, str]],
) -> None:
    edit_config(
        ("trajectory_every = 2", "trajectory_every = 2\nforces_every = 8\nvelocities_every = 0")
    )
    found = [
        re.search(r"trajectory: (\d+) frames, ([\d.]+) MB", plan(n_steps=n)) for n in (400, 800)
    ]
    assert [match[1] for match in found if match] == ["201", "401"]
    sizes = []
    for n_steps in (400, 800):
        run(n_steps=n_steps, overwrite=True)
        sizes.append(Path("argon.h5md").stat().st_size)
    # Positions and species of a frame, a quarter of its forces; observables grow by whole chunks.
    told = 1e6 * (float(found[1][2]) - float(found[0][2]))
    assert told == pytest.approx(200 * (32 * (12 + 2 + 12 / 4) + 200), rel=0.15)
    assert told == pytest.approx(sizes[1] - sizes[0], rel=0.5)


def test_refuses_what_a_run_refuses(
    run_folder: Path,
    edit_config: Callable[..., Path],
    run: Callable[..., tuple[RunOutcome, str, str]],
) -> None:
    run(n_steps=2)
    with pytest.raises(TrajectoryError, match=r"argon.h5md exists"):
        plan()
    assert "speed" in plan(overwrite=True)
    Path("argon.restart-1.npz").write_text("a thesis")
    with pytest.raises(TrajectoryError, match=r"restart-1.npz is damaged or no restart file"):
        plan(overwrite=True)
    Path("argon.restart-1.npz").unlink()
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
