"""Ctrl-C and SIGTERM end a run, wherever it is, with a reason and with what was written."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from md_gie.calculators.lammps_bridge.launcher import python_path
from tests.calculators.lammps_bridge.conftest import SMOKE, thermo_rows

pytestmark = pytest.mark.lammps

START = """\
units metal
atom_modify map array
read_data {data}
velocity all create 30.0 1
fix move all nve
timestep 0.0001
"""
HOOK = """\
pair_style none
fix gie all external pf/callback 1 1
python gie_attach input 4 SELF gie {model} "O H C dtype=float64" format psss here &
  "from md_gie.calculators.lammps_bridge import gie_attach"
python gie_attach invoke
thermo 1
thermo_style custom step pe etotal press
dump frames all custom 1 frames.dump id x y z
"""
ALONE = """\
pair_style lj/cut 2.5
pair_coeff * * 0.001 1.0
thermo 1000
dump alone all custom 1000 alone.dump id
run 1000000000
"""
WITH = START + HOOK + "run 1000000\n"
BEFORE = START + ALONE
AFTER = START + HOOK + "run 1\nunfix gie\nundump frames\n" + ALONE

SHORT_DEADLINE = """\
import md_gie.calculators.lammps_bridge.signals as signals

signals._DEADLINE_S = 1
"""

ON_IMPORT = """\
import os
import sys

class Finder:
    @staticmethod
    def find_spec(name, path, target=None):
        if name == "torch":
            os.kill(os.getpid(), 15)

sys.meta_path.insert(0, Finder)
"""


def import_first(folder: Path, text: str) -> str:
    """Write a module that every Python imports when it starts; PYTHONPATH with its folder."""
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(text)
    return f"{site}{os.pathsep}{python_path()}"


def frames(path: Path) -> list[int]:
    """Steps of the frames that were written."""
    text = path.read_text() if path.is_file() else ""
    return [int(frame.split()[0]) for frame in text.split("ITEM: TIMESTEP\n")[1:-1]]


@pytest.fixture
def start(make_atoms, write_data, tmp_path) -> Iterator[Callable[..., subprocess.Popen]]:
    """Start a command with a script, and wait until it has written some frames."""
    started = []

    def start_process(command: list[str], script: str, path: str) -> subprocess.Popen:
        data = write_data(make_atoms("cubic", 8))
        (tmp_path / "in.lmp").write_text(script.format(data=data, model=SMOKE))
        environment = {
            **os.environ,
            "PYTHONPATH": path,
            "OMP_NUM_THREADS": "1",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }
        with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
            process = subprocess.Popen(
                [*command, "-in", "in.lmp"],
                cwd=tmp_path, stdout=out, stderr=err, env=environment, start_new_session=True,
            )  # fmt: skip
        started.append(process)
        written = tmp_path / ("alone.dump" if ALONE in script else "frames.dump")
        deadline = time.monotonic() + 60
        while len(frames(written)) < 3:
            assert process.poll() is None, (tmp_path / "err").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return process

    yield start_process
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize(
    ("front", "number"), [("program", signal.SIGTERM), ("launcher", signal.SIGINT)]
)
def test_run_ends_before_its_next_step(front, number, request, start, tmp_path):
    process = start(request.getfixturevalue(front), WITH, python_path())
    process.send_signal(number)
    assert process.wait(timeout=30) == 128 + number
    last = thermo_rows((tmp_path / "out").read_text())[-1, 0]
    errors = (tmp_path / "err").read_text()
    assert f"LAMMPS ends at step {last + 1:.0f}: stopped by {number.name}" in errors
    whole = (tmp_path / "frames.dump").read_text().split("ITEM: TIMESTEP\n")[1:]
    assert int(whole[-1].split()[0]) == last
    assert len({len(frame.splitlines()) for frame in whole}) == 1


@pytest.mark.parametrize(
    ("front", "number"), [("program", signal.SIGTERM), ("launcher", signal.SIGINT)]
)
def test_every_process_ends(front, number, request, start, parallel, tmp_path):
    """A terminal gives Ctrl-C to the starter of MPI and to all that it has started."""
    process = start(parallel(request.getfixturevalue(front), 2), WITH, python_path())
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    assert process.wait(timeout=30) != 0
    assert "md-gie: LAMMPS ends at step " in (tmp_path / "err").read_text()


@pytest.mark.parametrize("ranks", [1, 2])
def test_lammps_that_is_busy_without_the_potential(ranks, launcher, parallel, start, tmp_path):
    process = start(parallel(launcher, 2) if ranks > 1 else launcher, BEFORE, python_path())
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 128 + signal.SIGTERM
    errors = (tmp_path / "err").read_text()
    assert errors.count("md-gie: LAMMPS ends at step ") == ranks
    assert "stopped by SIGTERM" in errors


@pytest.mark.parametrize(("times", "status"), [(1, signal.SIGALRM), (2, signal.SIGTERM)])
def test_program_that_has_taken_the_potential_away(times, status, program, start, tmp_path):
    path = import_first(tmp_path, SHORT_DEADLINE if times == 1 else "")
    process = start(program, AFTER, path)
    for _ in range(times):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
    assert process.wait(timeout=8) == -status


@pytest.mark.parametrize("front", ["program", "launcher"])
def test_signal_while_pytorch_is_imported(
    front, request, make_atoms, write_data, run_process, tmp_path
):
    data = write_data(make_atoms("cubic", 8))
    (tmp_path / "in.lmp").write_text(WITH.format(data=data, model=SMOKE))
    path = import_first(tmp_path, ON_IMPORT)
    done = run_process([*request.getfixturevalue(front), "-in", "in.lmp"], PYTHONPATH=path)
    assert done.returncode == 128 + signal.SIGTERM
    assert "md-gie: LAMMPS ends at start-up: stopped by SIGTERM" in done.stderr
