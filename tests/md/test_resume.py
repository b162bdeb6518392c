"""Going on after an end, a signal or a kill: bit for bit, and only with what belongs together."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from md_gie.errors import TrajectoryError
from md_gie.md.run import RunOutcome
from md_gie.trajectory import H5MDReader, RestartFiles

Result = tuple[RunOutcome, str, str]  # with what went to stdout and to stderr


BAROSTAT = """
thermostat_fs = 100
barostat_fs = 300
compressibility_per_GPa = 0.3
pressure_ramp_ps_GPa = [[0, 0.1], [0.2, 0.5]]
"""
SETTINGS = {
    "nve": "",
    "nvt-langevin": "friction_per_ps = 2",
    "nvt-bussi": "thermostat_fs = 100",
    "nvt-nose-hoover": "thermostat_fs = 100",
    "npt-isotropic": BAROSTAT,
    "npt-anisotropic": BAROSTAT,
    "npt-full-cell": BAROSTAT,
}


@pytest.mark.parametrize("ensemble", SETTINGS)
def test_resume_is_bit_for_bit(
    run_folder: Path,
    edit_config: Callable[..., Path],
    ensemble: str,
    run: Callable[..., Result],
    contents: Callable[[Path], dict[str, bytes]],
) -> None:
    edit_config(("nvt-langevin", ensemble), ("friction_per_ps = 2", SETTINGS[ensemble]))
    # Hot enough that the neighbour list is rebuilt between restarts.
    edit_config(("temperature_K = 60", "temperature_K = 400"))
    outcome, whole_table, _ = run()
    assert outcome.summary.n_builds > 2
    expected = contents(run_folder / "argon.h5md")
    last = RestartFiles("argon.h5md").latest()
    run(overwrite=True, n_steps=13)
    run(resume=True, n_steps=34)
    _, table, _ = run(resume=True)
    assert contents(run_folder / "argon.h5md") == expected
    resumed = RestartFiles("argon.h5md").latest()
    assert last is not None
    assert resumed is not None
    for name, array in last.arrays.items():
        assert resumed.arrays[name].tobytes() == array.tobytes(), name
    assert table.splitlines()[1:3] == whole_table.splitlines()[3:5]


def test_resume_needs_the_neighbour_list_as_it_was(
    run_folder: Path,
    edit_config: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[..., Result],
    contents: Callable[[Path], dict[str, bytes]],
) -> None:
    edit_config(("temperature_K = 60", "temperature_K = 400"))
    run()
    expected = contents(run_folder / "argon.h5md")
    run(overwrite=True, n_steps=34)
    monkeypatch.setattr("md_gie.neighbors.NeighborCache.restore", lambda cache, state: None)
    run(resume=True)
    assert contents(run_folder / "argon.h5md") != expected


def test_finished_run_resumes_to_nothing_and_can_be_extended(
    run_folder: Path, run: Callable[..., Result], contents: Callable[[Path], dict[str, bytes]]
) -> None:
    run()
    before = contents(run_folder / "argon.h5md")
    outcome, _, _ = run(resume=True)
    assert (outcome.last_step, outcome.summary.n_steps) == (60, 0)
    assert contents(run_folder / "argon.h5md") == before
    outcome, _, _ = run(resume=True, n_steps=64)
    assert (outcome.last_step, outcome.summary.n_steps) == (64, 4)


def test_resume_refuses_another_run(
    run_folder: Path, edit_config: Callable[..., Path], run: Callable[..., Result]
) -> None:
    with pytest.raises(TrajectoryError, match=r"no restart file argon.restart-0.npz"):
        run(resume=True)
    run(n_steps=20)
    edit_config(("timestep_fs = 4.0", "timestep_fs = 2.0"), ("seed = 7", "seed = 8"))
    with pytest.raises(TrajectoryError) as caught:
        run(resume=True)
    assert str(caught.value) == (
        "the restart file of step 20 belongs to another run: timestep_fs was 4.0 and is now 2.0; "
        "seed was 7 and is now 8; restore these to go on, or start a new run with another "
        "[output] trajectory"
    )


def test_resume_refuses_another_model_or_trajectory(
    run_folder: Path, run: Callable[..., Result], contents: Callable[[Path], dict[str, bytes]]
) -> None:
    run(n_steps=20)
    Path("toy.pt").write_text("another model file")
    with pytest.raises(TrajectoryError, match="belongs to another run: model_hash was"):
        run(resume=True)
    Path("toy.pt").write_text("a model file")
    kept = Path("argon.h5md").read_bytes()
    Path("argon.h5md").unlink()
    with pytest.raises(TrajectoryError, match=r"argon.h5md: no such trajectory"):
        run(resume=True)
    Path("argon.restart-0.npz").rename("a.npz")
    Path("argon.restart-1.npz").rename("b.npz")
    run(n_steps=30)
    Path("a.npz").rename("argon.restart-0.npz")
    Path("b.npz").rename("argon.restart-1.npz")
    foreign = contents(Path("argon.h5md"))
    with pytest.raises(TrajectoryError, match="comes from another run"):
        run(resume=True)
    assert contents(Path("argon.h5md")) == foreign
    Path("argon.h5md").write_bytes(kept)
    assert run(resume=True)[0].last_step == 60


def spoil(path: Path, what: str) -> None:
    """Leave a readable restart file that no run can go on from."""
    arrays: dict[str, Any] = dict(np.load(path))
    head = json.loads(str(arrays.pop("head")))
    kind, _, name = what.partition(" ")
    if kind == "fact":
        del head["facts"][name]
    elif kind == "lacks":
        del arrays[name]
    elif kind == "nan":
        arrays[name] = arrays[name] * np.nan
    elif kind == "short":
        arrays[name] = arrays[name][:2]
    else:
        arrays[name] = arrays[name].astype(kind)
    np.savez(path, allow_pickle=False, head=np.array(json.dumps(head)), **arrays)


@pytest.mark.parametrize(
    "what",
    [
        "fact run_id",
        "fact surroundings",
        "fact n_frames",
        "fact numbers",
        "fact n_bath",
        "fact n_builds",
        "lacks velocities",
        "lacks neighbors_cell",
        "nan positions",
        "nan energy",
        "short masses",
        "short neighbors_positions",
        "f4 forces",
        "U9 cell",
        "f8 neighbors_pbc",
    ],
)
def test_resume_from_a_spoilt_file_takes_its_twin(
    run_folder: Path,
    run: Callable[..., Result],
    contents: Callable[[Path], dict[str, bytes]],
    what: str,
) -> None:
    run(n_steps=20)
    expected = contents(run_folder / "argon.h5md")
    newest = max(RestartFiles("argon.h5md").paths, key=lambda path: path.stat().st_mtime_ns)
    spoil(newest, what)
    outcome, _, progress = run(resume=True, n_steps=20)
    assert outcome.summary.n_steps == 10
    assert f"{newest} is damaged; going on from step 10" in progress
    assert contents(run_folder / "argon.h5md") == expected
    for path in RestartFiles("argon.h5md").paths:
        spoil(path, what)
    with pytest.raises(TrajectoryError, match="damaged or not restart files of this version"):
        run(resume=True, n_steps=20)


LONG_RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import md_gie.engine, toy
md_gie.engine.load_potential = toy.load_toy
from md_gie.cli import main
sys.exit(main(["run", "argon.toml", *sys.argv[2:]]))
"""


def start(*options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-u", "-c", LONG_RUN, os.fspath(Path(__file__).parent), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_finish_the_step_and_leave_a_restart(
    run_folder: Path, number: signal.Signals, status: int, run: Callable[..., Result]
) -> None:
    with start("--steps", "1000000") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while "40 " not in process.stdout.readline():
            pass
        process.send_signal(number)
        process.stdout.read()
        message = process.stderr.read()
    assert process.returncode == status
    assert "go on with --resume" in message
    restart = RestartFiles("argon.h5md").latest()
    assert restart is not None
    assert restart.step >= 40
    with H5MDReader("argon.h5md") as reader:
        assert reader.steps[-1] == restart.step - restart.step % 2
    outcome, _, _ = run(resume=True, n_steps=restart.step + 2)
    assert outcome.summary.n_steps == 2


def test_killed_run_resumes_bit_for_bit(
    run_folder: Path, run: Callable[..., Result], contents: Callable[[Path], dict[str, bytes]]
) -> None:
    rng = np.random.default_rng(0)
    killed_at = []
    for _ in range(2):
        options = ["--resume"] if killed_at else []
        with start("--steps", "1000000", *options) as process:
            assert process.stdout is not None
            target = (killed_at[-1] if killed_at else 0) + int(rng.integers(50, 150))
            for line in process.stdout:
                head = line.split()[0]
                if head.isdigit() and int(head) >= target:
                    break
            process.send_signal(signal.SIGKILL)
        restart = RestartFiles("argon.h5md").latest()
        assert restart is not None
        killed_at.append(restart.step)
    last = killed_at[-1] + 30
    run(resume=True, n_steps=last)
    resumed = contents(run_folder / "argon.h5md")
    run(overwrite=True, n_steps=last)
    assert contents(run_folder / "argon.h5md") == resumed
