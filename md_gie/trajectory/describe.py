"""A trajectory in a few lines of text."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from md_gie.structure import symbols_of
from md_gie.trajectory.files import reading
from md_gie.trajectory.formats import TrajectoryReader, read_trajectory

_WIDTH = 12
_SETTINGS = ("ensemble", "timestep_fs", "temperature_K", "pressure_GPa")


def describe_trajectory(path: str | Path) -> str:
    """Tell what a trajectory holds and how it was made.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    str
        Several lines, without a newline at the end.

    Raises
    ------
    TrajectoryError
        If the file cannot be read as a trajectory of md_gie.
    """
    with read_trajectory(path) as reader, reading(Path(path)):
        facts = {"trajectory": str(path), **_content(reader), **_origin(reader)}
    return "\n".join(f"{name:<{_WIDTH - 1}} {value}" for name, value in facts.items())


def _content(reader: TrajectoryReader) -> dict[str, str]:
    header = reader.header
    axes = "".join("T" if periodic else "F" for periodic in header.pbc)
    facts = {"size": _size(reader.path.stat().st_size), "frames": str(len(reader))}
    if len(reader):
        steps, times = reader.steps, reader.times_fs
        facts["steps"] = f"{steps[0]} to {steps[-1]}"
        facts["time"] = f"{times[0] / 1000:g} to {times[-1] / 1000:g} ps"
    kinds = Counter(symbols_of(header.numbers))
    counts = ", ".join(f"{count} {symbol}" for symbol, count in sorted(kinds.items()))
    facts["atoms"] = f"{len(header.numbers)} ({counts}), periodic {axes}"
    facts["observables"] = ", ".join(reader.observables) or "none"
    return facts


def _origin(reader: TrajectoryReader) -> dict[str, Any]:
    metadata = reader.header.metadata
    facts: dict[str, Any] = {}
    if reader.runs:
        starts = [f"step {run['start_step']} ({run['time']})" for run in reader.runs]
        facts["started at"] = ", ".join(starts)
    if reader.summaries:
        last = reader.summaries[-1]
        facts["speed"] = f"{float(last['ns_per_day']):.3g} ns/day" if "ns_per_day" in last else None
    md = json.loads(metadata.get("config", "{}")).get("md", {})
    settings = [f"{name} {md[name]}" for name in _SETTINGS if md.get(name) is not None]
    facts["settings"] = ", ".join(settings)
    facts |= {name: metadata.get(name) for name in ("model", "model_hash", "seed", "run_id")}
    for name in ("versions", "surroundings"):
        facts |= json.loads(metadata.get(name, "{}"))
    return {name: value for name, value in facts.items() if value not in (None, "")}


def _size(n_bytes: int) -> str:
    """Bytes in the unit that leaves one to four digits."""
    size, unit = float(n_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1000:
            break
        size, unit = size / 1024, larger
    return f"{size:.3g} {unit}"
