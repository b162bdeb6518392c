"""A run as users start it: files, resume bit for bit, guards, signals, refusals."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import numpy as np
import pytest
import torch

import md_gie.engine
from md_gie.errors import ConfigError, SimulationError, StructureError, TrajectoryError
from md_gie.md import run_from_config
from md_gie.md.run import RunOutcome
from md_gie.structure import Structure, write_structure
from md_gie.trajectory import H5MDReader, RestartFiles


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(path: Path | str = "argon.toml", **options: Any) -> tuple[RunOutcome, str, str]:
    out, err = io.StringIO(), io.StringIO()
    outcome = run_from_config(path, stdout=out, stderr=err, **options)
    return outcome, out.getvalue(), err.getvalue()


def contents(path: Path) -> dict[str, bytes]:
    """Every dataset of a trajectory that a run determines, as bytes."""
    found = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and name != "md_gie/runs":
            found[name] = item[()].tobytes()

    with h5py.File(path) as file:
        file.visititems(visit)
    return found


def test_run_writes_table_trajectory_and_summary(run_folder: Path) -> None:
    outcome, out, err = run()
    assert (outcome.last_step, outcome.signal_number) == (60, 0)
    lines = out.splitlines()
    assert " ".join(lines[0].split()) == "step time/ps E_pot/eV E_kin/eV T/K conserved/eV P/GPa"
    assert [line.split()[0] for line in lines[1:5]] == ["0", "20", "40", "60"]
    assert float(lines[4].split()[1]) == 0.24
    assert lines[5].startswith("60 steps of 32 atoms, ")
    parts = ("edges", "ms/step (neighbours", "model", "integration", "writing", "ns/day", "MiB")
    assert all(part in lines[5] for part in parts)
    assert "\r" not in err
    assert err.count("left\n") == 10
    with H5MDReader("argon.h5md") as reader:
        assert reader.steps.tolist() == list(range(0, 61, 2))
        reader.verify()
        values = {name: reader[-1].observables[name] for name in reader.observables}
        row = [float(text) for text in lines[4].split()]
        assert row[2] == pytest.approx(values["potential_energy"], abs=6e-5)
        assert row[4] == pytest.approx(values["temperature"], abs=6e-3)
        assert row[6] == pytest.approx(values["pressure"], abs=6e-5)
        drift = np.ptp(reader.observable("conserved_energy")) / 32
        assert drift < 1e-4
        assert np.ptp(reader.observable("kinetic_energy")) / 32 > 10 * drift
        assert '"timestep_fs": 4.0' in reader.header.metadata["config"]


def test_summary_adds_up(run_folder: Path) -> None:
    outcome, _, _ = run()
    summary = outcome.summary
    assert set(summary.milliseconds) == {"neighbours", "model", "integration", "writing"}
    assert all(value > 0 for value in summary.milliseconds.values())
    step_s = sum(summary.milliseconds.values()) / 1000
    assert summary.ns_per_day == pytest.approx(86400 / step_s * 4.0 * 1e-6)
    assert summary.peak_bytes["host"] > 50 * 2**20


def test_terminal_gets_a_bar(run_folder: Path) -> None:
    out, err = Terminal(), Terminal()
    run_from_config("argon.toml", stdout=out, stderr=err)
    assert "\r" in err.getvalue()
    assert "60/60" in err.getvalue()


@pytest.mark.parametrize("ensemble", ["nvt-langevin", "nve"])
def test_resume_is_bit_for_bit(
    run_folder: Path, edit_config: Callable[..., Path], ensemble: str
) -> None:
    if ensemble == "nve":
        edit_config(("nvt-langevin", "nve"), ("friction_per_ps = 2\n", ""))
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
    run_folder: Path, edit_config: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    edit_config(("temperature_K = 60", "temperature_K = 400"))
    run()
    expected = contents(run_folder / "argon.h5md")
    run(overwrite=True, n_steps=34)
    monkeypatch.setattr("md_gie.neighbors.NeighborCache.restore", lambda cache, state: None)
    run(resume=True)
    assert contents(run_folder / "argon.h5md") != expected


def test_finished_run_resumes_to_nothing_and_can_be_extended(run_folder: Path) -> None:
    run()
    before = contents(run_folder / "argon.h5md")
    outcome, _, _ = run(resume=True)
    assert (outcome.last_step, outcome.summary.n_steps) == (60, 0)
    assert contents(run_folder / "argon.h5md") == before
    outcome, _, _ = run(resume=True, n_steps=64)
    assert (outcome.last_step, outcome.summary.n_steps) == (64, 4)


def test_files_of_an_earlier_run_are_not_overwritten_unasked(run_folder: Path) -> None:
    run(n_steps=20)
    before = contents(run_folder / "argon.h5md")
    with pytest.raises(TrajectoryError, match=r"argon.h5md exists: go on with --resume"):
        run()
    assert contents(run_folder / "argon.h5md") == before
    Path("argon.h5md").unlink()
    with pytest.raises(TrajectoryError, match=r"restart-\d.npz exists"):
        run()
    run(n_steps=4, overwrite=True)
    latest = RestartFiles("argon.h5md").latest()
    assert latest is not None
    assert latest.step == 4


def test_resume_refuses_another_run(run_folder: Path, edit_config: Callable[..., Path]) -> None:
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


def test_resume_refuses_another_model_or_trajectory(run_folder: Path) -> None:
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


def test_non_finite_forces_stop_the_run_and_name_the_atoms(
    run_folder: Path, toy: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*args: Any, **options: Any) -> Any:
        engine = toy.ToyEngine()
        engine.poison_at = 28  # the evaluation after step 27 begins
        return engine

    monkeypatch.setattr(md_gie.engine, "load_potential", load)
    with pytest.raises(SimulationError) as caught:
        run()
    assert str(caught.value).startswith("step 27: energy is")
    assert "forces on 2 atoms (3, 5) are not finite" in str(caught.value)
    assert caught.value.data["step"] == 27
    assert caught.value.data["atoms"] == [3, 5]
    with H5MDReader("argon.h5md") as reader:
        assert reader.steps.tolist() == list(range(0, 27, 2))
        reader.verify()
        assert all(np.isfinite(frame.forces).all() for frame in reader)
    with H5MDReader("argon.failed.h5md") as reader:
        assert reader[0].step == 27
        assert np.isfinite(reader[0].positions).all()
    restart = RestartFiles("argon.h5md").latest()
    assert restart is not None
    assert restart.step == 20


def test_heat_stops_the_run(run_folder: Path, edit_config: Callable[..., Path]) -> None:
    path = edit_config(("seed = 7", "seed = 7\n[guards]\nmax_temperature_K = 80"))
    edit_config(("temperature_K = 60", "temperature_K = 160"))
    with pytest.raises(SimulationError, match=r"step 1: the temperature is \d\d\d K, above guards"):
        run(path)
    with H5MDReader("argon.failed.h5md") as reader:
        assert reader[0].step == 1


def test_overlap_at_the_start_is_a_mistake_in_the_structure(
    run_folder: Path, argon: Structure
) -> None:
    for distance, place in ((0.05, [0.05, 0.0, 0.0]), (0.0, [0.0, 0.0, 0.0])):
        positions = argon.positions.copy()
        positions[9] = positions[5] + place
        write_structure("argon.extxyz", Structure(argon.numbers, positions, argon.cell, argon.pbc))
        with pytest.raises(StructureError, match=f"are {distance:.3f} Å apart") as caught:
            run()
        assert sorted(caught.value.data["atoms"]) == [5, 9]
        assert not Path("argon.h5md").exists()


def test_atoms_that_collide_stop_the_run(
    run_folder: Path, argon: Structure, edit_config: Callable[..., Path]
) -> None:
    edit_config(("seed = 7", "seed = 7\n[guards]\nmin_distance_A = 3.0"))
    velocities = np.zeros((32, 3))
    direction = argon.positions[1] - argon.positions[0]
    velocities[0] = 0.005 * direction
    write_structure(
        "argon.extxyz",
        Structure(argon.numbers, argon.positions, argon.cell, argon.pbc, velocities),
    )
    with pytest.raises(SimulationError, match=r"step \d+: atoms \d and \d are 2.\d+ Å apart") as e:
        run()
    assert sorted(e.value.data["atoms"]) == [0, 1]


def test_velocities_of_the_structure_are_kept(
    run_folder: Path, argon: Structure, edit_config: Callable[..., Path]
) -> None:
    velocities = np.random.default_rng(5).normal(scale=1e-3, size=(32, 3))
    velocities -= velocities.mean(0)
    write_structure(
        "argon.extxyz",
        Structure(argon.numbers, argon.positions, argon.cell, argon.pbc, velocities),
    )
    edit_config(
        ("nvt-langevin", "nve"), ("friction_per_ps = 2\n", ""), ("temperature_K = 60\n", "")
    )
    run(n_steps=0)
    with H5MDReader("argon.h5md") as reader:
        np.testing.assert_allclose(reader[0].velocities, velocities, rtol=1e-6, atol=1e-9)
        assert len(reader) == 1


def test_temperature_is_needed_to_draw_velocities(
    run_folder: Path, edit_config: Callable[..., Path]
) -> None:
    edit_config(
        ("nvt-langevin", "nve"), ("friction_per_ps = 2\n", ""), ("temperature_K = 60\n", "")
    )
    with pytest.raises(ConfigError, match=r"\[md\] temperature_K: missing; argon.extxyz has no"):
        run()


def test_clusters_have_no_pressure(run_folder: Path, argon: Structure) -> None:
    free = Structure(argon.numbers, argon.positions, argon.cell * 0, np.zeros(3, bool))
    write_structure("argon.extxyz", free)
    _, out, _ = run(n_steps=4)
    assert "P/GPa" not in out
    with H5MDReader("argon.h5md") as reader:
        assert "stress" not in reader.observables
        assert reader.header.pbc == (False, False, False)


def test_default_dtype_and_threads_are_left_alone(run_folder: Path) -> None:
    def read() -> tuple[object, ...]:
        return (
            torch.get_default_dtype(),
            torch.get_num_threads(),
            torch.is_grad_enabled(),
            torch.random.get_rng_state().sum().item(),
            signal.getsignal(signal.SIGINT),
            signal.getsignal(signal.SIGTERM),
        )

    before = read()
    run(n_steps=4)
    assert read() == before


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
    run_folder: Path, number: signal.Signals, status: int
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


def test_killed_run_resumes_bit_for_bit(run_folder: Path) -> None:
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
