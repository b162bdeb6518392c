"""Extended XYZ and .traj in place of H5MD: the same frames, the same refusals."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ase.io
import numpy as np
import pytest

from md_gie.errors import TrajectoryError
from md_gie.trajectory import Frame, TrajectoryHeader, TrajectoryOptions
from md_gie.trajectory.formats import (
    continue_trajectory,
    create_trajectory,
    read_trajectory,
    refuse_to_replace,
)

ENDINGS = ("extxyz", "xyz", "traj", "h5md")
PRECISION = {"extxyz": 1e-8, "xyz": 1e-8, "traj": 1e-12, "h5md": 1e-5}
Make = Callable[..., Frame]


@pytest.fixture(params=ENDINGS)
def ending(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def save(
    header: TrajectoryHeader, options: TrajectoryOptions, make_frame: Make
) -> Callable[..., Path]:
    def to_file(path: Path, steps: range, **changes: int) -> Path:
        with create_trajectory(path, header, replace(options, **changes)) as writer:
            for step in steps:
                writer.append(make_frame(step))
        return path

    return to_file


def test_frames_come_back(
    save: Callable[..., Path],
    make_frame: Make,
    header: TrajectoryHeader,
    tmp_path: Path,
    ending: str,
) -> None:
    path = save(tmp_path / f"a.{ending}", range(0, 200, 2))
    near = {"rtol": 1e-6, "atol": PRECISION[ending]}
    with read_trajectory(path) as reader:
        assert reader.steps.tolist() == list(range(0, 200, 2))
        np.testing.assert_array_equal(reader.times_fs, 0.5 * reader.steps)
        assert len(reader) == reader.cells.shape[0] == 100
        np.testing.assert_array_equal(reader.header.numbers, header.numbers)
        np.testing.assert_allclose(reader.header.masses, header.masses)
        assert reader.header.pbc == header.pbc
        assert reader.header.metadata == {"config": "{}"}
        assert reader.observables["temperature"] == "K"
        assert [run["start_step"] for run in reader.runs] == [0]
        for frame in reader:
            given = make_frame(frame.step)
            for name in ("cell", "positions", "velocities", "forces"):
                np.testing.assert_allclose(getattr(frame, name), getattr(given, name), **near)
            for name, value in given.observables.items():
                np.testing.assert_allclose(frame.observables[name], value, rtol=1e-12, atol=1e-9)
        steps, times, values = reader.series("temperature")
        np.testing.assert_array_equal(values, 300.0 + steps)
        np.testing.assert_array_equal(times, 0.5 * steps)


@pytest.mark.parametrize("ending", ["extxyz", "traj"])
def test_ase_reads_them(
    save: Callable[..., Path], make_frame: Make, tmp_path: Path, ending: str
) -> None:
    atoms = ase.io.read(save(tmp_path / f"a.{ending}", range(3)), ":")[2]
    given = make_frame(2)
    np.testing.assert_allclose(atoms.get_forces(), given.forces, atol=1e-8)
    assert atoms.get_potential_energy() == pytest.approx(given.observables["potential_energy"])
    np.testing.assert_allclose(atoms.get_stress(voigt=False), given.observables["stress"])
    assert atoms.pbc.tolist() == [True, True, False]
    assert atoms.info["step"] == 2


def test_metadata_of_any_kind_come_back(
    header: TrajectoryHeader,
    options: TrajectoryOptions,
    make_frame: Make,
    tmp_path: Path,
    ending: str,
) -> None:
    metadata = {"config": '{"path": "C:\\\\new \\"x\\" = {1, 2} µ\\n"}', "model": "a b='c', #d"}
    path = tmp_path / f"a.{ending}"
    with create_trajectory(path, replace(header, metadata=metadata), options) as writer:
        writer.append(make_frame(0))
    with read_trajectory(path) as reader:
        assert reader.header.metadata == metadata


def test_own_cadences(save: Callable[..., Path], tmp_path: Path, ending: str) -> None:
    cadences = {"frames_every": 5, "velocities_every": 10, "forces_every": 15}
    path = save(tmp_path / f"a.{ending}", range(31), **cadences)
    with read_trajectory(path) as reader:
        assert reader.steps.tolist() == [0, 5, 10, 15, 20, 25, 30]
        assert [f.step for f in reader if f.velocities is not None] == [0, 10, 20, 30]
        assert [f.step for f in reader if f.forces is not None] == [0, 15, 30]


def test_going_on_drops_later_frames(
    save: Callable[..., Path],
    make_frame: Make,
    options: TrajectoryOptions,
    tmp_path: Path,
    ending: str,
) -> None:
    path = save(tmp_path / f"a.{ending}", range(10))
    with continue_trajectory(path, options, last_step=6) as writer:
        assert writer.n_committed == 7
        writer.append(make_frame(7))
        assert writer.commit() == 8
        writer.record_summary({"n_steps": 1})
    with read_trajectory(path) as reader:
        assert reader.steps.tolist() == list(range(8))
        assert [run["start_step"] for run in reader.runs] == [0, 6]
        assert reader.header.metadata == {"config": "{}"}
    assert {file.name for file in tmp_path.iterdir()} == {path.name}


@pytest.mark.parametrize("ending", ["extxyz", "traj"])
def test_a_torn_frame_is_dropped(
    save: Callable[..., Path],
    make_frame: Make,
    options: TrajectoryOptions,
    tmp_path: Path,
    ending: str,
) -> None:
    path = save(tmp_path / f"a.{ending}", range(6))
    content = path.read_bytes()
    if ending == "extxyz":
        path.write_bytes(content[:-150])
        kept = [0, 1, 2, 3, 4]
    else:
        # A kill before the header counts what stands behind it.
        path.write_bytes(content + b"half a frame")
        kept = [0, 1, 2, 3, 4, 5]
    with read_trajectory(path) as reader:
        assert reader.steps.tolist() == kept
    with continue_trajectory(path, options) as writer:
        writer.append(make_frame(9))
    with read_trajectory(path) as reader:
        assert reader.steps.tolist() == [*kept, 9]


def test_existing_files_are_spared(
    save: Callable[..., Path],
    header: TrajectoryHeader,
    options: TrajectoryOptions,
    tmp_path: Path,
    ending: str,
) -> None:
    path = save(tmp_path / f"a.{ending}", range(3))
    before = path.read_bytes()
    with pytest.raises(TrajectoryError, match="is not overwritten unasked"):
        create_trajectory(path, header, options)
    assert path.read_bytes() == before
    refuse_to_replace(path)
    create_trajectory(path, header, options, overwrite=True).close()
    path.write_text("1\nyears of work\nH 0 0 0\n")
    with pytest.raises(TrajectoryError, match="it is not overwritten"):
        create_trajectory(path, header, options, overwrite=True)
    assert "years" in path.read_text()


def test_second_writers_are_refused(
    header: TrajectoryHeader,
    options: TrajectoryOptions,
    make_frame: Make,
    tmp_path: Path,
    ending: str,
) -> None:
    path = tmp_path / f"a.{ending}"
    with create_trajectory(path, header, options) as writer:
        writer.append(make_frame(0))
        writer.commit()
        for attempt in (
            lambda: continue_trajectory(path, options),
            lambda: create_trajectory(path, header, options, overwrite=True),
        ):
            with pytest.raises(TrajectoryError, match="already open for writing"):
                attempt()
        script = (
            "import sys; from md_gie.trajectory import TrajectoryOptions as O\n"
            "from md_gie.trajectory.formats import continue_trajectory\n"
            "continue_trajectory(sys.argv[1], O())"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, path], capture_output=True, text=True, check=False
        )
        assert "in use by another process" in done.stderr
        writer.append(make_frame(1))
    with read_trajectory(path) as reader:
        assert len(reader) == 2


@pytest.mark.parametrize("ending", ["extxyz", "traj"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"observables_every": 1, "frames_every": 5}, "has no observables between frames"),
        ({"compression": "gzip"}, "has no compression"),
    ],
)
def test_what_a_format_lacks_is_refused(
    header: TrajectoryHeader,
    options: TrajectoryOptions,
    tmp_path: Path,
    ending: str,
    changes: dict[str, int],
    message: str,
) -> None:
    with pytest.raises(TrajectoryError, match=message):
        create_trajectory(tmp_path / f"a.{ending}", header, replace(options, **changes))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ["extxyz", "traj"])
@pytest.mark.parametrize(
    "changes", [{"forces": None}, {"positions": np.zeros((4, 3))}, {"observables": {}}]
)
def test_incomplete_frames_are_refused(
    header: TrajectoryHeader,
    options: TrajectoryOptions,
    make_frame: Make,
    tmp_path: Path,
    ending: str,
    changes: dict[str, object],
) -> None:
    with create_trajectory(tmp_path / f"a.{ending}", header, options) as writer:
        writer.append(make_frame(0))
        with pytest.raises(TrajectoryError, match="frame of step 1 has none or another shape"):
            writer.append(make_frame(1, **changes))


LIMITED = """
import resource, signal, sys
import numpy as np
from md_gie.trajectory import *
from md_gie.trajectory.formats import create_trajectory

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
header = TrajectoryHeader(np.full(100, 8), np.full(100, 16.0), (True, True, True))
with create_trajectory(sys.argv[1], header, TrajectoryOptions()) as writer:
    for step in range(1000):
        data = np.random.default_rng(step).normal(size=(3, 100, 3))
        writer.append(Frame(step, 0.5 * step, np.eye(3) * 9, *data))
        print(writer.commit(), flush=True)
"""


@pytest.mark.parametrize("ending", ["extxyz", "traj"])
def test_a_full_disk_keeps_what_was_committed(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    count = int(done.stdout.split()[-1])
    assert f"the {count} frames committed before are intact" in done.stderr
    with read_trajectory(path) as reader:
        assert reader.steps.tolist() == list(range(count))
