"""Small trajectories with everything in them, of water and a hydroxide ion in a skewed slab."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from md_gie.trajectory import (
    Frame,
    H5MDWriter,
    Observable,
    TrajectoryHeader,
    TrajectoryOptions,
)

NUMBERS = np.array([8, 1, 1, 8, 1])
HEADER = TrajectoryHeader(
    NUMBERS, np.array([15.999, 1.008, 1.008, 15.999, 1.008]), (True, True, False), {"config": "{}"}
)
OPTIONS = TrajectoryOptions(
    (
        Observable("potential_energy", "eV"),
        Observable("temperature", "K"),
        Observable("stress", "eV Angstrom-3", (3, 3)),
    )
)


@pytest.fixture(scope="session")
def header() -> TrajectoryHeader:
    return HEADER


@pytest.fixture(scope="session")
def options() -> TrajectoryOptions:
    return OPTIONS


def make_frame(step: int, **changes: Any) -> Frame:
    """Make the frame of a step: random but always the same."""
    rng = np.random.default_rng(step)
    stress = rng.normal(size=(3, 3))
    fields: dict[str, Any] = {
        "step": step,
        "time_fs": 0.5 * step,
        "cell": np.array([[9.0, 0.0, 0.0], [1.5, 8.0, 0.0], [0.2, 0.4, 7.0]]) + step / 8,
        "positions": rng.normal(size=(5, 3)) * 10,
        "velocities": rng.normal(size=(5, 3)) * 0.01,
        "forces": rng.normal(size=(5, 3)),
        "observables": {
            "potential_energy": -step / 3,
            "temperature": 300.0 + step,
            "stress": stress + stress.T,
        },
    }
    return Frame(**(fields | changes))


def write(path: Path, steps: range, options: TrajectoryOptions = OPTIONS) -> Path:
    """Write the frames of some steps to a file."""
    with H5MDWriter.create(path, HEADER, options) as writer:
        for step in steps:
            writer.append(make_frame(step))
    return path


@pytest.fixture(name="make_frame", scope="session")
def _make_frame() -> Callable[..., Frame]:
    return make_frame


@pytest.fixture(name="write", scope="session")
def _write() -> Callable[..., Path]:
    return write
