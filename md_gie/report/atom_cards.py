"""Cards of where atoms are and how they move."""

import numpy as np

from md_gie.report.card import Card, error_text
from md_gie.report.figures import COLORS, GREY, figure, line
from md_gie.report.series import thinned
from md_gie.report.study import Study


def distributions(found: Study) -> Card | None:
    """Radial distribution functions."""
    pairs = found.pairs
    if not pairs.distributions:
        return None
    traces = [
        line(pairs.radii_A, values, name, color)
        for (name, values), color in zip(pairs.distributions.items(), COLORS * 2, strict=False)
    ]
    n_frames = len(pairs.times_ps)
    layout = {}
    if pairs.half_box_A < pairs.reach_A:
        layout = {"shapes": [_vertical(pairs.half_box_A)]}
    # Bonds inside molecules are so much higher than the rest that they would flatten it.
    beyond = np.concatenate([g[pairs.radii_A > 1.6] for g in pairs.distributions.values()])
    top = max(3.0, 1.15 * float(beyond.max(initial=0.0)))
    text = (
        f"From {n_frames} frames along the run, the first fifth left out."
        + (" Dashed: half the box." if layout else "")
        + " Double-click the plot to see peaks that are cut off."
    )
    plot = figure(traces, "r / Å", "g(r)", yaxis={"range": [0, top]}, **layout)
    return Card("rdf", "Radial distribution functions", text, plot)


def contacts(found: Study) -> Card | None:
    """Shortest distances along the run."""
    closest = {
        name: values for name, values in found.pairs.closest_A.items() if np.isfinite(values).any()
    }
    if not closest:
        return None
    traces = [
        line(found.pairs.times_ps, values, name, color, mode="lines+markers", marker={"size": 4})
        for (name, values), color in zip(closest.items(), COLORS * 2, strict=False)
    ]
    if "closest_distance" in found.series:
        times, values = found.series["closest_distance"]
        few = thinned(len(times))
        traces.append(line(times[few], values[few], "any pair, every frame", GREY))
    least = min(closest, key=lambda name: float(np.nanmin(closest[name])))
    text = (
        f"Shortest of all: {least}, {np.nanmin(closest[least]):.3f} Å. A line that falls towards "
        "zero tells of atoms that the potential does not hold apart."
    )
    plot = figure(traces, "time / ps", "shortest distance / Å")
    return Card("contacts", "Closest contacts", text, plot)


def motion(found: Study) -> Card:
    """Mean square displacements and diffusion."""
    title = "Mean square displacement"
    if isinstance(found.diffusion, str):
        return Card("msd", title, f"Not determined: {found.diffusion}.")
    traces, words = [], []
    for (symbol, part), color in zip(found.diffusion.items(), COLORS * 9, strict=False):
        few = thinned(len(part.lags_ps))
        traces.append(line(part.lags_ps[few], part.msd_A2[few], symbol, color))
        value = f"{part.coefficient_cm2_s:.2e}{error_text(part.error_cm2_s, '', '.0e')} cm²/s"
        caveat = "" if part.is_diffusive else f" (not diffusion yet: MSD ∝ t^{part.exponent:.1f})"
        words.append(f"{symbol} {value}{caveat}")
    text = (
        f"Self-diffusion from a straight line between 20 and 50 % of the run: {'; '.join(words)}. "
        "Relative to the centre of mass; not corrected for the size of the box."
    )
    return Card("msd", title, text, figure(traces, "lag / ps", "MSD / Å²"))


def _vertical(place: float) -> dict[str, object]:
    return {
        "type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": place, "x1": place,
        "line": {"color": GREY, "width": 1.2, "dash": "dash"},
    }  # fmt: skip
