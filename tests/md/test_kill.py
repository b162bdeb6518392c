"""Real runs of ``md-gie run`` with a DPA4 model, killed at random moments and resumed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from md_gie.structure import Structure, write_structure
from md_gie.trajectory import H5MDReader, RestartFiles

MODEL = Path(__file__).parents[1] / "data" / "dpa4" / "p0_smoke.pt"
CONFIG = """
[model]
name = "{model}"
kernels = "reference"

[structure]
file = "water.extxyz"

[md]
ensemble = "{ensemble}"
timestep_fs = 0.1
n_steps = {n_steps}
temperature_K = 300
seed = 3
{settings}

[output]
trajectory = "water.h5md"
trajectory_every = 2
thermo_every = 10
restart_every = 2

[guards]
min_distance_A = 0.1
"""
BAROSTAT = """
thermostat_fs = 20
barostat_fs = 100
compressibility_per_GPa = 0.1
pressure_GPa = 0.1
"""
SETTINGS = {
    "nve": "",
    "nvt-langevin": "friction_per_ps = 10\nfix_center_of_mass = true",
    "nvt-bussi": "thermostat_fs = 20",
    "nvt-nose-hoover": "thermostat_fs = 20",
    "npt-isotropic": BAROSTAT,
    "npt-anisotropic": BAROSTAT,
    "npt-full-cell": BAROSTAT,
}
KILLS = 3  # for each ensemble
N_STEPS = 18
THREADS = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}

# A process that has imported everything and forks one for each command: a run is then killed in
# its own time, and not in that of imports. It kills before it asks for the status, so that the
# number of the process is no one else's.
SERVER = """
import os, signal, sys, time
import torch._dynamo, md_gie.md, md_gie.engine, md_gie.trajectory, ase.io
from md_gie.cli import main
print("ready", flush=True)
for line in sys.stdin:
    kill_after, *arguments = line.split()
    pid = os.fork()
    if pid == 0:
        for stream, name in ((1, "out.txt"), (2, "err.txt")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), stream)
        status = 99
        try:
            status = main(arguments)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    if kill_after != "never":
        time.sleep(float(kill_after))
        os.kill(pid, signal.SIGKILL)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Server:
    """Runs ``md-gie`` commands, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            cwd=folder,
            env={**os.environ, **THREADS},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def run(self, *arguments: str, kill_after: float | None = None) -> int:
        """Return the exit status, negative for the signal that ended it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        when = "never" if kill_after is None else f"{kill_after:.4f}"
        self.process.stdin.write(
            " ".join((when, "run", "water.toml", "--no-report", *arguments)) + "\n"
        )
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("killed")
    molecule = np.array([[0.0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0]])
    corners = np.array([[0.0, 0, 0], [3.1, 3.1, 0], [3.1, 0, 3.1], [0, 3.1, 3.1]])
    positions = (corners[:, None] + molecule).reshape(-1, 3)
    water = Structure(np.array([8, 1, 1] * 4), positions, 6.2 * np.eye(3), True)
    write_structure(path / "water.extxyz", water)
    return path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    made = Server(folder)
    yield made
    made.close()


def configure(folder: Path, ensemble: str, n_steps: int) -> None:
    text = CONFIG.format(
        model=MODEL, ensemble=ensemble, settings=SETTINGS[ensemble], n_steps=n_steps
    )
    (folder / "water.toml").write_text(text)


@pytest.mark.parametrize("ensemble", SETTINGS)
def test_killed_runs_resume_bit_for_bit(
    ensemble: str, folder: Path, server: Server, contents: Callable[[Path], dict[str, bytes]]
) -> None:
    configure(folder, ensemble, n_steps=N_STEPS)
    trajectory = folder / "water.h5md"
    rng = np.random.default_rng(list(SETTINGS).index(ensemble))
    start = time.monotonic()
    assert server.run("--overwrite") == 0, (folder / "err.txt").read_text()
    duration = time.monotonic() - start
    expected, last = contents(trajectory), RestartFiles(trajectory).latest()
    kills, tries, resumed_from = 0, 0, set()
    arguments = ["--overwrite"]
    # On a busy machine kills may all come before the first restart file: then go on.
    while kills < KILLS or not resumed_from:
        tries += 1
        assert tries < 10 * KILLS
        status = server.run(*arguments, kill_after=float(rng.uniform(0.05, 0.7)) * duration)
        if status == -signal.SIGKILL:
            kills += 1
        else:
            # Either it was done before, or there was nothing to go on from.
            assert status in (0, 2), (folder / "err.txt").read_text()
        arguments = ["--resume"]
        if not any(path.exists() for path in RestartFiles(trajectory).paths):
            arguments = ["--overwrite"]
            if trajectory.exists() and trajectory.stat().st_size and not opens(trajectory):
                # Killed within the milliseconds in which the file is laid out.
                trajectory.unlink()
        elif status == 0:
            arguments = ["--overwrite"]
            resumed_from.clear()
        else:
            step = RestartFiles(trajectory).latest().step
            resumed_from |= {step} & set(range(1, N_STEPS))
    assert server.run(*arguments) == 0, (folder / "err.txt").read_text()
    found = contents(trajectory)
    assert found.keys() == expected.keys()
    assert [name for name in expected if found[name] != expected[name]] == []
    resumed = RestartFiles(trajectory).latest()
    assert last is not None
    assert resumed is not None
    for name, array in last.arrays.items():
        assert resumed.arrays[name].tobytes() == array.tobytes(), name


def opens(path: Path) -> bool:
    try:
        H5MDReader(path).close()
    except ValueError:
        return False
    return True


def command(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    program = Path(sys.executable).with_name("md-gie")
    return subprocess.Popen(
        [program, "run", "water.toml", "--no-report", *arguments],
        cwd=folder,
        env={**os.environ, **THREADS},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(
    not Path(sys.executable).with_name("md-gie").exists(), reason="md-gie is not installed here"
)
def test_the_installed_command_is_killed_and_resumed(
    folder: Path, server: Server, contents: Callable[[Path], dict[str, bytes]]
) -> None:
    trajectory = folder / "water.h5md"
    files = RestartFiles(trajectory)
    files.remove()
    trajectory.unlink(missing_ok=True)
    configure(folder, "nvt-bussi", n_steps=100000)
    with command(folder) as process:
        while not all(path.exists() for path in files.paths) or files.latest().step < 6:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    restart = files.latest()
    assert restart is not None
    last = str(restart.step + 5)
    with command(folder, "--resume", "--steps", last) as process:
        out, err = process.communicate()
        assert "5 steps of 12 atoms" in out, err
    assert process.returncode == 0
    resumed = contents(trajectory)
    assert server.run("--overwrite", "--steps", last) == 0, (folder / "err.txt").read_text()
    assert contents(trajectory) == resumed
