"""All cards of a report, in the order in which they are shown."""

from md_gie.report.atom_cards import contacts, distributions, motion
from md_gie.report.card import Card
from md_gie.report.run_cards import neighbours, timing
from md_gie.report.study import Study
from md_gie.report.thermo_cards import conserved, energy, others, pressure, temperature, volume

_MAKERS = (
    energy, conserved, temperature, pressure, volume, others, distributions, contacts, motion,
    neighbours, timing,
)  # fmt: skip


def cards(found: Study) -> list[Card]:
    """Make every card for which a trajectory has the numbers."""
    made = [maker(found) for maker in _MAKERS]
    return [card for card in made if card is not None]
