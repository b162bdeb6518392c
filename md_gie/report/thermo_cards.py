"""Cards of energies, temperature, pressure, and volume."""

import math

import numpy as np

from md_gie.report import figures
from md_gie.report.card import Card, error_text
from md_gie.report.figures import BLUE, COLORS, GREEN, GREY, ORANGE, RED, figure, line
from md_gie.report.series import Floats, average, drift, running_mean, settled, thinned
from md_gie.report.study import Study
from md_gie.units import BOLTZMANN_EV_K

AMU_A3_IN_G_CM3 = 1.66053906660


def energy(found: Study) -> Card | None:
    """Potential and kinetic energy, each from its mean."""
    traces, means = [], []
    for name, label, color in (
        ("potential_energy", "potential", BLUE),
        ("kinetic_energy", "kinetic", RED),
    ):
        if name in found.series:
            times, values = found.series[name]
            per_atom = values / found.n_atoms
            mean = average(per_atom).mean
            few = thinned(len(times))
            traces.append(line(times[few], 1000 * (per_atom - mean)[few], label, color))
            means.append(f"{label} {mean:.6g} eV/atom")
    if not traces:
        return None
    text = f"Deviation from the mean of each: {', '.join(means)}."
    return Card("energy", "Energies", text, figure(traces, "time / ps", "ΔE / meV per atom"))


def conserved(found: Study) -> Card | None:
    """Drift of the conserved energy."""
    if "conserved_energy" not in found.series:
        return None
    times, values = found.series["conserved_energy"]
    change = 1000 * (values - values[0]) / found.n_atoms
    few = thinned(len(times))
    traces = [line(times[few], change[few], "conserved energy", GREEN)]
    fit = drift(times, change)
    if fit is None:
        text = "Too short for a drift."
    else:
        middle = change.mean() + fit.slope_per_ps * (times[[0, -1]] - times.mean())
        traces.append(line(times[[0, -1]], middle, "fit", GREY, line={"dash": "dash"}))
        text = (
            f"Drift {fit.slope_per_ps:+.3g} meV/atom per ps, scatter {fit.scatter:.2g} meV/atom "
            "around the straight line. What the thermostat and barostat exchange is accounted for: "
            "this energy stays constant if the timestep is short enough."
        )
    plot = figure(traces, "time / ps", "change / meV per atom")
    return Card("conserved", "Conserved energy", text, plot)


def temperature(found: Study) -> Card | None:
    """Temperature along the run and its distribution."""
    if "temperature" not in found.series:
        return None
    times, values = found.series["temperature"]
    few, part = thinned(len(times)), values[settled(len(values))]
    result = average(values)
    traces = [
        line(times[few], values[few], "instantaneous", ORANGE, opacity=0.55),
        line(times[few], running_mean(values)[few], "running mean", RED, line={"width": 2.2}),
    ]
    text = f"Mean {result.mean:.1f} K{error_text(result.error, 'K')} without the first fifth."
    target, layout = target_temperature(found), {}
    expected = None
    if target is not None:
        layout = figures.level(target, f"{target:g} K")
        if len(part) > 50:
            expected = _temperature_density(target, found)
            text += " Dotted: what the canonical ensemble has at the thermostat's temperature."
    elif (ramp := _ramp(found, "temperature_ramp_ps_K")) is not None:
        traces.append(line(times[few], np.interp(times[few], *ramp), "thermostat", GREY))
    if len(part) > 50:
        traces += figures.with_histogram(part, ORANGE, expected)
        layout |= {
            "xaxis": {"domain": [0, 0.8]},
            "xaxis2": {"domain": [0.82, 1], "visible": False},
        }
    plot = figure(traces, "time / ps", "T / K", **layout)
    return Card("temperature", "Temperature", text, plot)


def target_temperature(found: Study) -> float | None:
    """Temperature of the thermostat; None without one, or along a ramp."""
    md = found.config.get("md", {})
    value = md.get("temperature_K")
    if md.get("ensemble") == "nve" or not isinstance(value, int | float):
        return None
    return float(value)


def _ramp(found: Study, key: str) -> tuple[Floats, Floats] | None:
    """Return times and values of a schedule, if the configuration has one."""
    points = found.config.get("md", {}).get(key)
    if not points:
        return None
    table = np.array(points, dtype=np.float64)
    return table[:, 0], table[:, 1]


def _temperature_density(target: float, found: Study) -> Floats | None:
    r"""Density of the kinetic temperature of f degrees of freedom: a gamma distribution."""
    kinetic = found.series.get("kinetic_energy")
    if kinetic is None:
        return None
    # The file holds both energy and temperature, and so the degrees of freedom.
    ratio = np.median(2 * kinetic[1] / (BOLTZMANN_EV_K * found.series["temperature"][1]))
    if not (np.isfinite(ratio) and ratio >= 1):
        return None
    shape = round(float(ratio)) / 2
    width = target * math.sqrt(1 / shape)
    x = np.linspace(max(target - 4 * width, 1e-3), target + 4 * width, 120)
    log = (shape - 1) * np.log(x / target) - shape * (x / target - 1)
    density = np.exp(log)
    return np.stack([x, density / (density.sum() * (x[1] - x[0]))])


def pressure(found: Study) -> Card | None:
    """Pressure and its mean."""
    if "pressure" not in found.series:
        return None
    times, values = found.series["pressure"]
    few, result = thinned(len(times)), average(values)
    traces = [
        line(times[few], values[few], "instantaneous", BLUE, opacity=0.45),
        line(times[few], running_mean(values)[few], "running mean", "#003f66", line={"width": 2.2}),
    ]
    text = (
        f"Mean {result.mean:.3g} {found.units['pressure']}"
        f"{error_text(result.error, found.units['pressure'])} without the first fifth; the kinetic "
        "part is in it. Instantaneous pressures of small systems scatter widely."
    )
    target, layout = found.config.get("md", {}).get("pressure_GPa"), {}
    if isinstance(target, int | float):
        layout = figures.level(float(target), f"{target:g} GPa")
    elif (ramp := _ramp(found, "pressure_ramp_ps_GPa")) is not None:
        traces.append(line(times[few], np.interp(times[few], *ramp), "barostat", GREY))
    plot = figure(traces, "time / ps", f"P / {found.units['pressure']}", **layout)
    return Card("pressure", "Pressure", text, plot)


def volume(found: Study) -> Card | None:
    """Volume and density, where the cell changes."""
    if not found.is_periodic or np.ptp(found.volumes) < 1e-9 * found.volumes[0]:
        return None
    few = thinned(len(found.times_ps))
    result = average(found.volumes)
    densities = found.header.masses.sum() * AMU_A3_IN_G_CM3 / found.volumes
    dense = average(densities)
    lengths = np.linalg.norm(found.cells, axis=2)
    text = (
        f"Mean volume {result.mean:.5g} Å³{error_text(result.error, 'Å³')}, density "
        f"{dense.mean:.4f} g/cm³{error_text(dense.error, 'g/cm³')}; last cell vectors "
        f"{', '.join(f'{value:.3f}' for value in lengths[-1])} Å."
    )
    traces = [line(found.times_ps[few], found.volumes[few], "volume", GREEN)]
    return Card("volume", "Volume", text, figure(traces, "time / ps", "V / Å³"))


def others(found: Study) -> Card | None:
    """Any other scalar that the file holds."""
    shown = {
        "potential_energy", "kinetic_energy", "conserved_energy", "temperature", "pressure",
        "volume", "neighbor_builds", "closest_distance",
    }  # fmt: skip
    names = [
        name
        for name, (_, values) in found.series.items()
        if name not in shown and np.isfinite(values).all() and np.ptp(values) > 0
    ]
    if not names:
        return None
    traces = []
    for name, color in zip(names, COLORS * len(names), strict=False):
        times, values = found.series[name]
        few = thinned(len(times))
        label = f"{name.replace('_', ' ')} / {found.units[name]}"
        traces.append(line(times[few], values[few], label, color))
    return Card("others", "Other observables", "", figure(traces, "time / ps", ""))
