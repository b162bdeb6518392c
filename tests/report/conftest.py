"""A trajectory of water that is made up: known temperature, pressure, drift and diffusion."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from md_gie.structure import read_structure
from md_gie.trajectory import (
    Frame,
    H5MDWriter,
    Observable,
    TrajectoryHeader,
    TrajectoryOptions,
)
from md_gie.units import BOLTZMANN_EV_K

WATER = Path(__file__).parents[2] / "inputs" / "structures" / "water64.extxyz"
STEP_FS = 0.5
EVERY = 20
DRIFT_EV_PS = 0.05  # of the whole box
OBSERVABLES = (
    Observable("potential_energy", "eV"),
    Observable("kinetic_energy", "eV"),
    Observable("conserved_energy", "eV"),
    Observable("temperature", "K"),
    Observable("pressure", "GPa"),
    Observable("stress", "eV Angstrom-3", (3, 3)),
)


def made_up_frames(count: int, jump_A: float) -> list[Frame]:
    """Molecules that step at random as wholes, so that each element diffuses alike."""
    rng = np.random.default_rng(1)
    water = read_structure(WATER)
    freedom = 3 * len(water) - 3
    positions = water.positions.copy()
    frames = []
    for number in range(count):
        kinetic = 0.5 * BOLTZMANN_EV_K * 330 * rng.gamma(freedom / 2, 2.0)
        temperature = 2 * kinetic / (freedom * BOLTZMANN_EV_K)
        time_ps = number * EVERY * STEP_FS / 1000
        total = -900.0 + DRIFT_EV_PS * time_ps
        rattled = positions + rng.normal(scale=0.02, size=positions.shape)
        observables: dict[str, Any] = {
            "potential_energy": total - kinetic,
            "kinetic_energy": kinetic,
            "conserved_energy": total + rng.normal(scale=1e-4),
            "temperature": temperature,
            "pressure": rng.normal(0.1, 0.3),
            "stress": np.zeros((3, 3)),
        }
        zeros = np.zeros_like(positions)
        step = number * EVERY
        time = 1000 * time_ps
        frames.append(Frame(step, time, water.cell, rattled, zeros, zeros, observables))
        positions += np.repeat(rng.normal(scale=jump_A, size=(len(water) // 3, 3)), 3, axis=0)
    return frames


@pytest.fixture(scope="session")
def make_trajectory() -> Callable[..., Path]:
    def make(path: Path, count: int = 60, jump_A: float = 0.1, **metadata: str) -> Path:
        water = read_structure(WATER)
        config = {
            "md": {"ensemble": "nvt-langevin", "temperature_K": 330.0, "timestep_fs": STEP_FS},
            "output": {"trajectory": "</script><b>water.h5md"},
        }
        facts = {
            "model": "water-s",
            "model_hash": "0" * 64,
            "run_id": "cafe",
            "config": json.dumps(config),
            "versions": json.dumps({"md_gie": "0.1.0"}),
            "surroundings": json.dumps({"device": "cpu (x86_64)"}),
        }
        header = TrajectoryHeader(water.numbers, water.masses, (True,) * 3, facts | metadata)
        with H5MDWriter.create(path, header, TrajectoryOptions(OBSERVABLES)) as writer:
            for frame in made_up_frames(count, jump_A):
                writer.append(frame)
            writer.record_summary(
                {
                    "n_steps": count * EVERY,
                    "n_builds": 7,
                    "n_edges": 17000,
                    "ns_per_day": 0.5,
                    "milliseconds": {"neighbours": 1.5, "model": 70.0, "integration": 0.4},
                    "peak_bytes": {"host": 2**30},
                }
            )
        return path

    return make
