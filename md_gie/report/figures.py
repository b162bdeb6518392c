"""Plots as Plotly's JSON: data and layout, no more; the page has the library."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Figure = dict[str, Any]

# Okabe and Ito's colours, which colour-blind people tell apart, in an order that suits lines.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = (
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8a8f98",
)  # fmt: skip
COLORS = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY, GREY)


def line(x: Floats, y: Floats, name: str, color: str, **style: Any) -> dict[str, Any]:
    """One curve."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": _numbers(x),
        "y": _numbers(y),
        "name": name,
        "line": {"color": color, "width": 1.6} | style.pop("line", {}),
        **style,
    }


def figure(traces: list[dict[str, Any]], x_title: str, y_title: str, **layout: Any) -> Figure:
    """Curves with axes."""
    axis = {"gridcolor": "#e8eaee", "zeroline": False, "linecolor": "#b8bdc6", "ticks": "outside"}
    axis |= {"tickcolor": "#b8bdc6", "automargin": True}
    base: dict[str, Any] = {
        "xaxis": {**axis, "title": {"text": x_title}},
        "yaxis": {**axis, "title": {"text": y_title}},
        "margin": {"l": 56, "r": 30, "t": 30, "b": 44},
        "modebar": {
            "orientation": "v",
            "bgcolor": "rgba(0,0,0,0)",
            "color": "#b8bdc6",
            "activecolor": "#5d6470",
        },
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "inherit", "size": 12.5, "color": "#30343b"},
        "hovermode": "x unified",
        "showlegend": len([trace for trace in traces if trace.get("showlegend", True)]) > 1,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    }
    for name, value in layout.items():
        base[name] = base.get(name, {}) | value if isinstance(value, Mapping) else value
    return {"data": traces, "layout": base}


def level(value: float, text: str, color: str = GREY) -> dict[str, Any]:
    """Return layout entries for a horizontal dashed line with a label."""
    return {
        "shapes": [
            {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": value, "y1": value,
             "line": {"color": color, "width": 1.2, "dash": "dash"}}
        ],
        "annotations": [
            {"xref": "paper", "x": 0, "xanchor": "left", "y": value, "yanchor": "bottom",
             "text": text, "showarrow": False, "font": {"size": 11, "color": color}}
        ],
    }  # fmt: skip


def with_histogram(values: Floats, color: str, target: Floats | None) -> list[dict[str, Any]]:
    """Return a histogram on a second axis, and the expected density (2, B) if there is one."""
    traces: list[dict[str, Any]] = [
        {
            "type": "histogram",
            "y": _numbers(values),
            "histnorm": "probability density",
            "marker": {"color": color, "opacity": 0.35},
            "xaxis": "x2",
            "name": "distribution",
            "showlegend": False,
            "nbinsy": 40,
            "hoverinfo": "skip",
        }
    ]
    if target is not None:
        expected = line(
            target[1], target[0], "expected", GREY, xaxis="x2", hoverinfo="skip", showlegend=False
        )
        traces.append(expected | {"line": {"color": "#30343b", "width": 1.4, "dash": "dot"}})
    return traces


def bars(milliseconds: Mapping[str, float]) -> Figure:
    """Parts of a step as one bar."""
    total = sum(milliseconds.values()) or 1.0
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "x": [round(value, 5)],
            "y": ["step"],
            "name": f"{name}  {value:.3g} ms",
            "marker": {"color": color},
            "text": [f"{100 * value / total:.0f} %"] if value > 0.04 * total else [""],
            "textposition": "inside",
            "insidetextanchor": "middle",
            "hovertemplate": f"{name}: {value:.4g} ms ({100 * value / total:.2f} %)<extra></extra>",
        }
        for (name, value), color in zip(milliseconds.items(), COLORS * 2, strict=False)
    ]
    hidden = {"visible": False}
    return figure(
        traces, "ms per step", "", barmode="stack", hovermode="closest", yaxis=hidden, bargap=0.35
    )


def _numbers(values: Floats) -> list[float | None]:
    """Values as JSON numbers with six digits; null where there is none."""
    found = np.asarray(values, dtype=np.float64)
    return [float(f"{x:.6g}") if np.isfinite(x) else None for x in found.ravel().tolist()]
