"""A card of a report: one subject, of text and a plot."""

import math
from dataclasses import dataclass

from md_gie.report.figures import Figure


@dataclass(frozen=True)
class Card:
    """A plot with its title and a sentence; ``name`` is its anchor in the page."""

    name: str
    title: str
    text: str
    figure: Figure | None = None


def error_text(error: float, unit: str, form: str = ".1g") -> str:
    """Write an error behind a value, or nothing if it is not known."""
    return f" ± {error:{form}} {unit}".rstrip() if math.isfinite(error) else ""
