"""Numbers of a report: averages, drift, distributions and diffusion that are known beforehand."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from md_gie.errors import TrajectoryError
from md_gie.report.diffusion import diffusion
from md_gie.report.pairs import pair_statistics
from md_gie.report.scene import frames_to_show, whole_molecules
from md_gie.report.series import average, drift, running_mean
from md_gie.report.study import study
from md_gie.trajectory import (
    Frame,
    H5MDWriter,
    Observable,
    TrajectoryHeader,
    TrajectoryOptions,
)
from md_gie.trajectory.formats import create_trajectory, read_trajectory

PERIODIC = (True, True, True)


def test_average_knows_its_error() -> None:
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(40):
        result = average(rng.normal(5.0, 2.0, size=1000))
        errors.append(abs(result.mean - 5.0) / result.error)
    # Of a normal distribution with nine degrees of freedom, 68 to 95 % within one to two errors.
    assert 0.5 < np.mean(np.array(errors) < 1.0) < 0.85
    assert np.mean(np.array(errors) < 3.0) > 0.9
    assert np.isnan(average(np.ones(5)).error)


def test_average_leaves_the_beginning_out() -> None:
    assert average(np.r_[np.full(20, 1e6), np.full(80, 3.0)]).mean == 3.0


def test_drift_is_the_slope() -> None:
    times = np.linspace(0, 10, 200)
    noise = np.random.default_rng(1).normal(scale=0.5, size=200)
    fit = drift(times, 7.0 + 3.0 * times + noise)
    assert fit is not None
    assert fit.slope_per_ps == pytest.approx(3.0, abs=0.05)
    assert fit.scatter == pytest.approx(0.5, rel=0.2)
    assert drift(times[:2], times[:2]) is None
    assert drift(np.zeros(5), np.ones(5)) is None


def test_running_mean_of_a_line_is_the_line() -> None:
    line = np.arange(100.0)
    np.testing.assert_allclose(running_mean(line)[10:-10], line[10:-10])


def test_ideal_gas_has_a_flat_distribution() -> None:
    rng = np.random.default_rng(2)
    numbers = np.repeat([18, 36], [150, 50])
    header = TrajectoryHeader(numbers, np.ones(200), PERIODIC)
    cell = np.array([[20.0, 0, 0], [4.0, 18.0, 0], [-3.0, 2.0, 19.0]])
    frames = [Frame(k, float(k), cell, rng.random((200, 3)) @ cell) for k in range(40)]
    found = pair_statistics(frames, header)
    assert set(found.distributions) == {"Ar–Ar", "Ar–Kr", "Kr–Kr"}
    # An atom is no neighbour of its own.
    expected = {"Ar–Ar": 1 - 1 / 150, "Ar–Kr": 1.0, "Kr–Kr": 1 - 1 / 50}
    for name, g in found.distributions.items():
        far = g[found.radii_A > 4]
        assert far.mean() == pytest.approx(expected[name], abs=0.02), name


def test_crystal_has_its_shells() -> None:
    cell = np.eye(3) * 3.0
    header = TrajectoryHeader(np.array([29]), np.ones(1), PERIODIC)
    found = pair_statistics([Frame(0, 0.0, cell, np.zeros((1, 3)))], header)
    g = found.distributions["Cu–Cu"]
    counts = g * 4 / 3 * np.pi * (np.diff(np.r_[0, found.radii_A + 0.02] ** 3)) / 27.0
    shells = {3.0: 6, 3.0 * 2**0.5: 12, 3.0 * 3**0.5: 8}
    for radius, expected in shells.items():
        near = np.abs(found.radii_A - radius) < 0.1
        assert counts[near].sum() == pytest.approx(expected, rel=1e-6)
    assert found.closest_A["Cu–Cu"][0] == pytest.approx(3.0)
    assert found.half_box_A == 1.5


def test_open_boundaries_have_contacts_alone() -> None:
    header = TrajectoryHeader(np.array([8, 1]), np.ones(2), (False, False, False))
    frame = Frame(0, 0.0, np.zeros((3, 3)), np.array([[0.0, 0, 0], [0.96, 0, 0]]))
    found = pair_statistics([frame], header)
    assert found.distributions == {}
    assert found.closest_A["H–O"][0] == pytest.approx(0.96)
    assert np.isnan(found.closest_A["O–O"][0])


def test_random_walk_diffuses() -> None:
    rng = np.random.default_rng(3)
    numbers = np.repeat([1, 3], 200)
    steps = rng.normal(size=(300, 400, 3)) * np.repeat([0.2, 0.4], 200)[:, None]
    paths = np.cumsum(steps, axis=0)
    header = TrajectoryHeader(numbers, np.ones(400), PERIODIC)
    times = 0.1 * np.arange(300)
    found = diffusion(paths + 50.0 * times[:, None, None], times, header)
    assert isinstance(found, dict)
    for symbol, jump in (("H", 0.2), ("Li", 0.4)):
        exact = jump**2 / (2 * 0.1) * 1e-4
        assert found[symbol].coefficient_cm2_s == pytest.approx(exact, rel=0.15)
        assert 0 < found[symbol].error_cm2_s < 0.3 * exact
        assert found[symbol].is_diffusive
        # The same by the definition, for a few lags.
        moving = paths - paths.mean(1, keepdims=True)
        mine = moving[:, numbers == (1 if symbol == "H" else 3)]
        for lag in (1, 7, 100):
            direct = ((mine[lag:] - mine[:-lag]) ** 2).sum(2).mean()
            assert found[symbol].msd_A2[lag] == pytest.approx(direct, rel=1e-9)


def test_what_is_no_diffusion_is_told() -> None:
    rng = np.random.default_rng(4)
    header = TrajectoryHeader(np.full(60, 18), np.ones(60), PERIODIC)
    times = 0.01 * np.arange(100)
    flight = rng.normal(size=(60, 3)) * times[:, None, None]
    rattling = rng.normal(scale=0.1, size=(100, 60, 3))
    for path, exponent in ((flight, 2.0), (rattling, 0.0)):
        found = diffusion(path, times, header)
        assert isinstance(found, dict)
        assert found["Ar"].exponent == pytest.approx(exponent, abs=0.1)
        assert not found["Ar"].is_diffusive


@pytest.mark.parametrize(
    ("times", "reason"),
    [(np.arange(5.0), "too few"), (np.arange(30.0) ** 2, "not evenly spaced")],
)
def test_no_diffusion_has_a_reason(times: np.ndarray, reason: str) -> None:
    header = TrajectoryHeader(np.array([1]), np.ones(1), PERIODIC)
    assert reason in str(diffusion(np.zeros((len(times), 1, 3)), times, header))


def test_molecules_are_whole_and_in_the_cell() -> None:
    cell = np.array([[6.0, 0, 0], [1.0, 6.0, 0], [0, -1.0, 7.0]])
    water = np.array([[0.1, 0.1, 0.1], [-0.8, 0.1, 0.4], [0.4, -0.8, 0.1]])
    header = TrajectoryHeader(np.array([8, 1, 1]), np.ones(3), PERIODIC)
    torn = water + np.array([[0, 0, 0], [1, 2, -1], [-3, 0, 1]]) @ cell
    placed, bonds = whole_molecules(Frame(0, 0.0, cell, torn), header)
    assert sorted(map(tuple, bonds.tolist())) == [(0, 1), (0, 2)]
    np.testing.assert_allclose(placed - placed[0], water - water[0], atol=1e-12)
    inside = placed.mean(0) @ np.linalg.inv(cell)
    assert ((inside >= 0) & (inside < 1)).all()


def test_crystals_stay_in_the_cell() -> None:
    corners = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]) / 2
    fractions = np.concatenate([corners, corners + 0.25])
    header = TrajectoryHeader(np.full(8, 6), np.ones(8), PERIODIC)
    frame = Frame(0, 0.0, np.eye(3) * 3.57, (fractions + 1e-6) * 3.57)
    placed, bonds = whole_molecules(frame, header)
    np.testing.assert_allclose(placed, frame.positions, atol=1e-9)
    # Of the 16 bonds of the cell, 9 go through its faces.
    assert len(bonds) == 7
    lengths = np.linalg.norm(placed[bonds[:, 0]] - placed[bonds[:, 1]], axis=1)
    np.testing.assert_allclose(lengths, 3.57 * 3**0.5 / 4, rtol=1e-6)


def test_frames_to_show_end_with_the_last() -> None:
    assert frames_to_show(1, 10) == [0]
    assert frames_to_show(1000, 192)[-1] == 999
    assert len(frames_to_show(10**6, 192)) <= 40
    assert frames_to_show(100, 10**6) == [99]


def test_study_of_a_made_up_run(make_trajectory: Callable[..., Path], tmp_path: Path) -> None:
    found = study(make_trajectory(tmp_path / "a.h5md", 100))
    assert found.n_atoms == 192
    assert found.damage == ""
    assert found.config["md"]["temperature_K"] == 330.0
    times, values = found.series["conserved_energy"]
    fit = drift(times, values)
    assert fit is not None
    assert fit.slope_per_ps == pytest.approx(0.05, rel=0.01)
    assert average(found.series["temperature"][1]).mean == pytest.approx(330, abs=10)
    assert found.summaries[0]["n_builds"] == 7
    assert found.scene is not None
    assert len(found.scene["frames"][0]["bonds"]) == 2 * 128


def test_study_of_nothing_is_refused(tmp_path: Path) -> None:
    header = TrajectoryHeader(np.array([1]), np.ones(1), PERIODIC)
    H5MDWriter.create(tmp_path / "a.h5md", header, TrajectoryOptions()).close()
    with pytest.raises(TrajectoryError, match="holds no frame yet"):
        study(tmp_path / "a.h5md")


@pytest.mark.parametrize("ending", ["extxyz", "traj"])
def test_other_formats_have_the_same_numbers(
    make_trajectory: Callable[..., Path], tmp_path: Path, ending: str
) -> None:
    expected = study(make_trajectory(tmp_path / "a.h5md", 30))
    options = TrajectoryOptions(tuple(Observable(*item) for item in expected.units.items()))
    with read_trajectory(tmp_path / "a.h5md") as reader:
        scalars = tuple(item for item in options.observables if item.name != "stress")
        options = replace(options, observables=scalars)
        path = tmp_path / f"a.{ending}"
        with create_trajectory(path, reader.header, options) as writer:
            for frame in reader:
                writer.append(frame)
    found = study(path)
    np.testing.assert_array_equal(found.steps, expected.steps)
    np.testing.assert_allclose(found.cells, expected.cells)
    assert set(found.series) == set(expected.series)
    for name, (times, values) in found.series.items():
        np.testing.assert_allclose(times, expected.series[name][0])
        np.testing.assert_allclose(values, expected.series[name][1])
    for name, g in found.pairs.distributions.items():
        # A pair or two lie on the border of a bin.
        assert np.abs(g - expected.pairs.distributions[name]).mean() < 0.01
    assert found.header.metadata == expected.header.metadata
