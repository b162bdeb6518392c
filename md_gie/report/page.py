"""The page: head with the main numbers, cards, view, provenance; one file, nothing from outside."""

import json
from collections import Counter
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from md_gie.report.card import Card
from md_gie.report.cards import cards
from md_gie.report.series import average, drift
from md_gie.report.study import Study
from md_gie.report.thermo_cards import AMU_A3_IN_G_CM3
from md_gie.structure import symbols_of

GENERATOR = "md_gie report"

# Nothing is fetched, whatever the scripts would like to.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; worker-src blob:"
)


def page(found: Study) -> str:
    """Write a report as HTML."""
    made = cards(found)
    data = {
        "figures": {card.name: card.figure for card in made if card.figure is not None},
        "scene": found.scene,
    }
    # A script element ends at the first "</", wherever it stands.
    embedded = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
    assets = files("md_gie.report") / "assets"
    style, script = ((assets / f"report.{kind}").read_text() for kind in ("css", "js"))
    title = escape(found.path.name)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="{GENERATOR}">
<meta name="run" content="{escape(found.header.metadata.get("run_id", ""))}">
<title>{title}</title>
<style>{style}</style>
<script>{_plotly()}</script>
</head>
<body>
<header><div class="wrap">
<h1>{title}</h1>
<p class="lead">{escape(_lead(found))}</p>
<div class="tiles">{"".join(map(_tile, _tiles(found)))}</div>
<ul class="notes">{"".join(_notes(found))}</ul>
</div></header>
<main class="wrap"><div class="grid">
{_view(found)}
{"".join(map(_section, made))}
{_provenance(found)}
</div>
<footer>Written by md_gie. All of it is in this one file; nothing is loaded from elsewhere.</footer>
</main>
<script type="application/json" id="data">{embedded}</script>
<script>{script}</script>
</body>
</html>
"""


def _plotly() -> str:
    # Plotly's Python package brings its JavaScript library (MIT).
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    return text.replace("</script", "<\\/script")


def _lead(found: Study) -> str:
    counts = Counter(symbols_of(found.header.numbers))
    formula = " ".join(f"{symbol}{count}" for symbol, count in sorted(counts.items()))
    axes = "".join("T" if axis else "F" for axis in found.header.pbc)
    model = found.header.metadata.get("model")
    by = f", model {model}" if model else ""
    return f"{found.n_atoms} atoms, {formula}, periodic {axes}{by}"


def _tiles(found: Study) -> list[tuple[str, str]]:
    md = found.config.get("md", {})
    tiles = [(f"{found.times_ps[-1] - found.times_ps[0]:.4g} ps", f"{len(found.steps)} frames")]
    if "ensemble" in md:
        tiles.append((str(md["ensemble"]), f"timestep {md.get('timestep_fs')} fs"))
    if "temperature" in found.series:
        tiles.append((f"{average(found.series['temperature'][1]).mean:.1f} K", "mean temperature"))
    if "pressure" in found.series:
        mean = average(found.series["pressure"][1]).mean
        tiles.append((f"{mean:.3g} {found.units['pressure']}", "mean pressure"))
    if found.is_periodic:
        density = found.header.masses.sum() * AMU_A3_IN_G_CM3 / average(found.volumes).mean
        tiles.append((f"{density:.4g} g/cm³", "density"))
    slope = _drift(found)
    if slope is not None:
        tiles.append((f"{slope:+.2g} meV", "energy drift per atom and ps"))
    speeds = [entry["ns_per_day"] for entry in found.summaries if "ns_per_day" in entry]
    if speeds:
        tiles.append((f"{speeds[-1]:.3g} ns/day", "speed"))
    return tiles


def _drift(found: Study) -> float | None:
    if "conserved_energy" not in found.series:
        return None
    times, values = found.series["conserved_energy"]
    fit = drift(times, 1000 * values / found.n_atoms)
    return None if fit is None else fit.slope_per_ps


def _notes(found: Study) -> list[str]:
    """Warnings that come before everything else."""
    notes = [found.damage] if found.damage else []
    for name, (_, values) in found.series.items():
        bad = int(np.count_nonzero(~np.isfinite(values)))
        if bad:
            notes.append(f"{name.replace('_', ' ')} is not finite in {bad} places.")
    if found.scene is None:
        notes.append(f"{found.n_atoms} atoms are too many for the three-dimensional view.")
    return [f"<li>{escape(note)}</li>" for note in notes]


def _tile(tile: tuple[str, str]) -> str:
    value, label = map(escape, tile)
    return f'<div class="tile"><b>{value}</b><span>{label}</span></div>'


def _section(card: Card) -> str:
    plot = f'<div class="plot" id="plot-{card.name}"></div>' if card.figure is not None else ""
    return (
        f'<section id="{card.name}"><h2>{escape(card.title)}</h2>'
        f"<p>{escape(card.text)}</p>{plot}</section>\n"
    )


def _view(found: Study) -> str:
    if found.scene is None:
        return ""
    styles = {"sticks": "ball and stick", "filled": "space-filling"}
    options = "".join(f'<option value="{key}">{text}</option>' for key, text in styles.items())
    return (
        '<section class="wide" id="structure"><h2>Structure</h2>'
        "<p>Molecules are shown whole, in the cell. Drag to turn, scroll to zoom.</p>"
        '<div id="view"></div><div class="controls">'
        '<button id="play" type="button">Play</button>'
        '<input id="frame" type="range" min="0" max="0" value="0" aria-label="frame">'
        '<output id="time"></output>'
        f'<select id="style" aria-label="style">{options}</select></div></section>'
    )


def _provenance(found: Study) -> str:
    metadata = found.header.metadata
    rows: dict[str, Any] = {"file": found.path.name, "frames": len(found.steps)}
    rows["steps"] = f"{found.steps[0]} to {found.steps[-1]}"
    for name in ("model", "model_hash", "seed", "run_id"):
        if metadata.get(name):
            rows[name.replace("_", " ")] = metadata[name]
    for name in ("versions", "surroundings"):
        rows |= _record(metadata.get(name, "{}"))
    starts = [f"step {run['start_step']} at {run['time']}" for run in found.runs]
    rows["started"] = "; ".join(starts)
    table = _table(rows)
    settings = "".join(
        f"<h2>{escape(name)}</h2>{_table(values)}"
        for name, values in found.config.items()
        if isinstance(values, dict)
    )
    details = f"<details><summary>Configuration</summary>{settings}</details>" if settings else ""
    return f'<section class="wide" id="provenance"><h2>Provenance</h2>{table}{details}</section>'


def _record(text: str) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _table(rows: dict[str, Any]) -> str:
    lines = (
        f"<tr><th>{escape(str(name))}</th><td>{escape(str(value))}</td></tr>"
        for name, value in rows.items()
        if value is not None
    )
    return f"<table>{''.join(lines)}</table>"
