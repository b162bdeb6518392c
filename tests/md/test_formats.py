"""Runs that write extended XYZ or .traj in place of H5MD."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ase.io
import numpy as np
import pytest

from md_gie.errors import TrajectoryError
from md_gie.trajectory.formats import read_trajectory

Run = Callable[..., Any]
Edit = Callable[..., Path]


@pytest.mark.parametrize("ending", ["extxyz", "traj"])
def test_a_run_goes_on_in_the_same_file(run: Run, edit_config: Edit, ending: str) -> None:
    edit_config(("argon.h5md", f"whole.{ending}"))
    run()
    edit_config((f"whole.{ending}", f"parts.{ending}"))
    run(n_steps=25)
    run(resume=True)
    with (
        read_trajectory(f"whole.{ending}") as whole,
        read_trajectory(f"parts.{ending}") as parts,
    ):
        assert whole.steps.tolist() == parts.steps.tolist() == list(range(0, 61, 2))
        for first, second in zip(whole, parts, strict=True):
            np.testing.assert_array_equal(first.positions, second.positions)
            np.testing.assert_array_equal(first.velocities, second.velocities)
            assert first.observables["conserved_energy"] == second.observables["conserved_energy"]
        assert len(parts.runs) == 2
        for name in ("config", "model_hash", "seed", "versions", "surroundings", "run_id"):
            assert parts.header.metadata[name]
    atoms = ase.io.read(f"parts.{ending}")
    assert np.isfinite(atoms.get_forces()).all()
    assert atoms.info["step"] == 60


def test_another_run_is_not_gone_on_with(run: Run, edit_config: Edit, run_folder: Path) -> None:
    edit_config(("argon.h5md", "a.extxyz"))
    run(n_steps=20)
    kept = (run_folder / "a.extxyz").read_bytes()
    run(n_steps=20, overwrite=True)
    (run_folder / "a.extxyz").write_bytes(kept)
    with pytest.raises(TrajectoryError, match="it comes from another run"):
        run(resume=True)


def test_what_the_format_lacks_is_told_before_any_work(
    run: Run, edit_config: Edit, run_folder: Path
) -> None:
    edit_config(
        ("argon.h5md", "a.extxyz"),
        ("trajectory_every = 2", "trajectory_every = 2\nobservables_every = 1"),
    )
    (run_folder / "toy.pt").unlink()
    with pytest.raises(TrajectoryError, match="has no observables between frames; take a name"):
        run()


LIMITED_RUN = """
import resource, signal, sys
sys.path.insert(0, sys.argv[1])
limit = 450_000 if sys.argv[2] == "h5md" else 90_000
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
import md_gie.engine, toy
md_gie.engine.load_potential = toy.load_toy
from md_gie.cli import main
sys.exit(main(["run", "argon.toml"]))
"""


@pytest.mark.parametrize("ending", ["h5md", "extxyz"])
def test_a_full_disk_ends_a_run_that_can_go_on(
    run: Run, edit_config: Edit, ending: str, run_folder: Path
) -> None:
    edit_config(("argon.h5md", f"a.{ending}"), ("n_steps = 60", "n_steps = 2000"))
    here = os.fspath(Path(__file__).parent)
    command = [sys.executable, "-c", LIMITED_RUN, here, ending]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert "frames committed before are intact" in last
    count = int(last.split("the ")[-1].split(" frames")[0])
    with read_trajectory(f"a.{ending}") as reader:
        assert reader.steps.tolist() == list(range(0, 2 * count, 2))
        reader.verify()
        step = int(reader.steps[-1])
    outcome = run(resume=True, n_steps=step + 20)[0]
    assert outcome.last_step == step + 20
    with read_trajectory(f"a.{ending}") as reader:
        assert reader.steps.tolist() == list(range(0, step + 21, 2))
