"""Cards of the program's own work: neighbour lists and time."""

import math
from typing import Any

from md_gie.report import figures
from md_gie.report.card import Card
from md_gie.report.figures import BLUE, figure, line
from md_gie.report.series import thinned
from md_gie.report.study import Study


def neighbours(found: Study) -> Card | None:
    """Rebuilds of the neighbour list."""
    series = found.series.get("neighbor_builds")
    known = [entry for entry in found.summaries if _is_number(entry.get("n_builds"))]
    if series is None and not known:
        return None
    text, plot = "", None
    if known:
        builds = sum(entry["n_builds"] for entry in known)
        steps = sum(entry["n_steps"] for entry in known if _is_number(entry.get("n_steps")))
        often = f", one in {steps / builds:.0f} steps on average" if builds else ""
        text = f"{builds} lists built in {steps} steps{often}. "
        edges: Any = known[-1].get("n_edges")
        if _is_number(edges):
            text += f"{edges} edges at the end, {edges / found.n_atoms:.1f} an atom."
    if series is not None:
        few = thinned(len(series[0]))
        plot = figure(
            [line(series[0][few], series[1][few], "lists built", BLUE, line={"shape": "hv"})],
            "time / ps", "lists built since the start",
        )  # fmt: skip
    return Card("neighbours", "Neighbour list", text, plot)


def timing(found: Study) -> Card | None:
    """Where the time of a step went, in the last process."""
    for entry in reversed(found.summaries):
        parts = entry.get("milliseconds")
        if isinstance(parts, dict) and parts and all(map(_is_number, parts.values())):
            total = sum(parts.values())
            text = f"{total:.3g} ms per step"
            if _is_number(entry.get("ns_per_day")):
                text += f", {entry['ns_per_day']:.3g} ns per day"
            peaks = entry.get("peak_bytes")
            if isinstance(peaks, dict):
                text += "".join(
                    f"; peak memory of the {name} {size / 2**20:.0f} MiB"
                    for name, size in peaks.items()
                    if _is_number(size)
                )
            return Card("timing", "Where the time went", f"{text}.", figures.bars(parts))
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
