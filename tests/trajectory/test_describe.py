"""What is told of a trajectory, in every format."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from md_gie.trajectory import Frame, TrajectoryHeader, TrajectoryOptions
from md_gie.trajectory.describe import describe_trajectory
from md_gie.trajectory.formats import create_trajectory


@pytest.mark.parametrize("ending", ["h5md", "extxyz", "traj"])
def test_facts_are_those_of_the_run(
    header: TrajectoryHeader,
    options: TrajectoryOptions,
    make_frame: Callable[..., Frame],
    tmp_path: Path,
    ending: str,
) -> None:
    config = {"md": {"ensemble": "nve", "timestep_fs": 0.5, "temperature_K": None}}
    metadata = {
        "config": json.dumps(config),
        "model": "water-s",
        "seed": "3",
        "versions": json.dumps({"md_gie": "0.1.0"}),
        "surroundings": json.dumps({"device": "cpu (x86_64)"}),
    }
    path = tmp_path / f"a.{ending}"
    with create_trajectory(path, replace(header, metadata=metadata), options) as writer:
        for step in (0, 50):
            writer.append(make_frame(step))
        writer.record_summary({"ns_per_day": 1.25})
    text = describe_trajectory(path)
    facts = {line[:11].strip(): line[12:] for line in text.splitlines()}
    assert facts["trajectory"] == str(path)
    assert facts["frames"] == "2"
    assert facts["steps"] == "0 to 50"
    assert facts["time"] == "0 to 0.025 ps"
    assert facts["atoms"] == "5 (3 H, 2 O), periodic TTF"
    assert set(facts["observables"].split(", ")) == {"potential_energy", "temperature", "stress"}
    assert facts["started at"].startswith("step 0 (20")
    assert facts["settings"] == "ensemble nve, timestep_fs 0.5"
    assert facts["model"] == "water-s"
    assert facts["device"] == "cpu (x86_64)"
    assert facts["size"].split()[1] in ("B", "KiB", "MiB")
    assert facts.get("speed") == ("1.25 ns/day" if ending == "h5md" else None)
