"""A writer killed at a random moment, and a disk that is full: committed frames survive."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from md_gie.trajectory import H5MDReader, H5MDWriter

WRITER = """
import sys
import numpy as np
from md_gie.trajectory import *

path, n_atoms, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if limit:
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
header = TrajectoryHeader(np.full(n_atoms, 8), np.full(n_atoms, 16.0), (True, True, True))
options = TrajectoryOptions((Observable("potential_energy", "eV"),))
with H5MDWriter.create(path, header, options) as writer:
    step = 0
    while True:
        data = np.random.default_rng(step).normal(size=(3, n_atoms, 3))
        writer.append(Frame(step, 0.5 * step, np.eye(3) * 9, *data, {"potential_energy": step}))
        step += 1
        if writer.n_committed == step:
            print(step, flush=True)
"""


def start(path: Path, n_atoms: int, limit: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), str(n_atoms), str(limit)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check(path: Path, acknowledged: int, n_atoms: int) -> None:
    with h5py.File(path, "r") as file:
        count = int(file["md_gie/n_committed"][()])
        assert count >= acknowledged > 0
        for frame in range(count):
            data = np.random.default_rng(frame).normal(size=(3, n_atoms, 3)).astype("f4")
            group = file["particles/trajectory"]
            np.testing.assert_array_equal(group["position/value"][frame], data[0])
            np.testing.assert_array_equal(group["velocity/value"][frame], data[1])
            assert group["position/step"][frame] == frame
            assert file["observables/trajectory/potential_energy/value"][frame] == frame
    with H5MDWriter.open_existing(path) as writer:
        assert writer.n_committed == count
    with H5MDReader(path) as reader:
        assert len(reader) == count
        reader.verify()


@pytest.mark.parametrize("trial", range(8))
def test_kill_loses_no_committed_frame(tmp_path: Path, trial: int) -> None:
    path = tmp_path / "a.h5md"
    n_atoms = 100 if trial % 2 else 20_000  # drains of 64 frames and of 21
    with start(path, n_atoms) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(np.random.default_rng(trial).uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        acknowledged = [int(line) for line in (first, *process.stdout) if line.endswith("\n")]
    check(path, acknowledged[-1], n_atoms)


def test_full_disk_leaves_no_file_without_frames(tmp_path: Path) -> None:
    path = tmp_path / "a.h5md"
    with start(path, 1000, limit=100_000) as process:
        _, errors = process.communicate(timeout=60)
    last = errors.strip().splitlines()[-1]
    assert f"TrajectoryError: {path} cannot be written: " in last
    assert not path.exists()


def test_full_disk_ends_with_a_sentence_and_keeps_what_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "a.h5md"
    with start(path, 1000, limit=6_000_000) as process:
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    last = errors.strip().splitlines()[-1]
    assert "TrajectoryError" in last
    acknowledged = int(output.split()[-1])
    assert f"the {acknowledged} frames committed before are intact" in last
    check(path, acknowledged, 1000)
