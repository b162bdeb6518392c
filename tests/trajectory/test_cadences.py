"""Velocities, forces and observables at steps of their own."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ase.io
import h5py
import numpy as np
import pytest

from md_gie.errors import TrajectoryError
from md_gie.trajectory import Frame, H5MDReader, H5MDWriter, TrajectoryHeader, TrajectoryOptions

Make = Callable[..., Frame]


@pytest.fixture
def sparse(options: TrajectoryOptions) -> TrajectoryOptions:
    return replace(
        options, frames_every=10, velocities_every=20, forces_every=30, observables_every=5
    )


def test_each_has_its_own_steps(
    write: Callable[..., Path], make_frame: Make, sparse: TrajectoryOptions, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.h5md", range(0, 301), sparse)
    with H5MDReader(path) as reader:
        assert reader.steps.tolist() == list(range(0, 301, 10))
        reader.verify()
        for frame in reader:
            given = make_frame(frame.step)
            np.testing.assert_array_equal(frame.positions, given.positions.astype("f4"))
            assert (frame.velocities is not None) == (frame.step % 20 == 0)
            assert (frame.forces is not None) == (frame.step % 30 == 0)
            if frame.velocities is not None:
                assert given.velocities is not None
                np.testing.assert_array_equal(frame.velocities, given.velocities.astype("f4"))
            if frame.forces is not None:
                np.testing.assert_allclose(frame.forces, given.forces, rtol=6e-8)
            assert frame.observables["temperature"] == 300.0 + frame.step
        steps, times, values = reader.series("temperature")
        assert steps.tolist() == list(range(0, 301, 5))
        np.testing.assert_array_equal(times, 0.5 * steps)
        np.testing.assert_array_equal(values, 300.0 + steps)
        assert reader.series("stress")[2].shape == (61, 3, 3)
    with h5py.File(path) as file:
        own = file["md_gie/streams"]
        assert own["velocity/step"][()].tolist() == list(range(0, 301, 20))
        assert own["force/step"][()].tolist() == list(range(0, 301, 30))
        assert own["force/value"].attrs["unit"] == "kJ mol-1 Angstrom-1"
        group = file["particles/trajectory"]
        assert group["species/step"] == group["position/step"]
        # What stands here is read frame by frame by other programs.
        assert set(group) == {"box", "position", "species"}
        assert len(file["observables/trajectory/temperature/value"]) == 31
    atoms = ase.io.read(path, 2)
    assert atoms.has("momenta")
    assert "forces" not in atoms.calc.results


def test_without_cadences_nothing_is_stored_twice(
    write: Callable[..., Path], options: TrajectoryOptions, tmp_path: Path
) -> None:
    same = replace(options, frames_every=5, velocities_every=5, observables_every=5)
    path = write(tmp_path / "a.h5md", range(0, 21), same)
    with h5py.File(path) as file:
        assert "streams" not in file["md_gie"]
        group = file["particles/trajectory"]
        assert group["velocity/step"] == group["position/step"]
    with H5MDReader(path) as reader:
        assert reader.steps.tolist() == [0, 5, 10, 15, 20]
        assert reader.series("temperature")[0].tolist() == [0, 5, 10, 15, 20]


def test_a_writer_tells_what_is_due(
    header: TrajectoryHeader, sparse: TrajectoryOptions, tmp_path: Path
) -> None:
    with H5MDWriter.create(tmp_path / "a.h5md", header, sparse) as writer:
        assert writer.due(60) == {"frames", "velocity", "force", "observables"}
        assert writer.due(15) == {"observables"}
        assert writer.due(7) == set()


@pytest.mark.parametrize("last_step", [57, 60, 90])
def test_going_on_gives_what_one_run_gives(
    write: Callable[..., Path],
    make_frame: Make,
    sparse: TrajectoryOptions,
    tmp_path: Path,
    last_step: int,
) -> None:
    path = write(tmp_path / "a.h5md", range(0, 91), sparse)
    with H5MDWriter.open_existing(path, last_step=last_step) as writer:
        for step in range(last_step + 1, 121):
            writer.append(make_frame(step))
    whole = write(tmp_path / "b.h5md", range(0, 121), sparse)
    groups = ("particles/trajectory/position", "md_gie/streams/velocity", "md_gie/streams/force")
    paths = [f"{group}/{part}" for group in groups for part in ("step", "time", "value")]
    paths += ["md_gie/streams/observables/step", "md_gie/streams/observables/stress/value"]
    with h5py.File(path) as found, h5py.File(whole) as expected:
        for name in paths:
            np.testing.assert_array_equal(found[name][()], expected[name][()])
    with H5MDReader(path) as reader:
        reader.verify()
        assert [run["start_step"] for run in reader.runs] == [0, last_step]


def test_damage_in_a_stream_is_named(
    write: Callable[..., Path], sparse: TrajectoryOptions, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.h5md", range(0, 91), sparse)
    with h5py.File(path, "r+", libver=("earliest", "v110")) as file:
        file["md_gie/streams/velocity/value"][2, 1, 1] += 1e-3
    with pytest.raises(TrajectoryError, match="velocity entry 2 differs from its checksum"):
        H5MDWriter.open_existing(path)
    with H5MDReader(path) as reader, pytest.raises(TrajectoryError, match="velocity entry 2"):
        reader.verify()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("md_gie/streams/velocity/n_committed", -1),
        ("md_gie/streams/velocity/crc32", [1, 2]),
        ("md_gie/streams/velocity/step", None),
    ],
)
def test_odd_streams_get_one_sentence(
    write: Callable[..., Path],
    sparse: TrajectoryOptions,
    tmp_path: Path,
    name: str,
    content: Any,
) -> None:
    path = write(tmp_path / "a.h5md", range(0, 41), sparse)
    with h5py.File(path, "r+") as file:
        del file[name]
        if content is not None:
            file[name] = content
    with pytest.raises(TrajectoryError, match="not laid out as a trajectory"):
        H5MDReader(path)


def test_tail_beyond_the_commit_is_dropped_in_every_stream(
    write: Callable[..., Path], make_frame: Make, sparse: TrajectoryOptions, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.h5md", range(0, 91), sparse)
    with h5py.File(path, "r+", libver=("earliest", "v110")) as file:
        file["md_gie/n_committed"][()] = 6
        file["md_gie/streams/velocity/n_committed"][()] = 3
        file["md_gie/streams/observables/n_committed"][()] = 11
    with H5MDWriter.open_existing(path) as writer:
        for step in range(51, 61):
            writer.append(make_frame(step))
    with H5MDReader(path) as reader:
        assert reader.steps.tolist() == [0, 10, 20, 30, 40, 50, 60]
        assert reader.series("temperature")[0].tolist() == list(range(0, 61, 5))
        assert reader[6].velocities is not None
        reader.verify()
