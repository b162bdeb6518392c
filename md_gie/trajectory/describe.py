"""A trajectory in a few lines of text."""

import json
from collections import Counter
from pathlib import Path

from md_gie.structure import symbols_of
from md_gie.trajectory.files import reading
from md_gie.trajectory.reader import H5MDReader


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
    with H5MDReader(path) as reader, reading(Path(path)):
        header = reader.header
        axes = "".join("T" if periodic else "F" for periodic in header.pbc)
        lines = [f"trajectory  {path}", f"frames      {len(reader)}"]
        if len(reader):
            steps, times = reader.steps, reader.times_fs
            lines.append(f"steps       {steps[0]} to {steps[-1]}")
            lines.append(f"time        {times[0] / 1000:g} to {times[-1] / 1000:g} ps")
        kinds = Counter(symbols_of(header.numbers))
        counts = ", ".join(f"{count} {symbol}" for symbol, count in sorted(kinds.items()))
        lines.append(f"atoms       {len(header.numbers)} ({counts}), periodic {axes}")
        lines.append(f"observables {', '.join(reader.observables) or 'none'}")
        starts = ", ".join(str(run["start_step"]) for run in reader.runs)
        lines.append(f"started at  steps {starts}")
        known = [name for name in ("model", "model_hash", "seed") if header.metadata.get(name)]
        lines += [f"{name:<11} {header.metadata[name]}" for name in known]
        facts: dict[str, object] = {}
        for name in ("versions", "surroundings"):
            facts |= json.loads(header.metadata.get(name, "{}"))
        lines += [f"{key:<11} {value}" for key, value in facts.items()]
    return "\n".join(lines)
