"""Integrators: one step takes a state and returns the next; nothing is changed in place."""

from md_gie.md.integrators.base import Integrator
from md_gie.md.integrators.cell_rescaling import Coupling, StochasticCellRescaling
from md_gie.md.integrators.langevin import LangevinBAOAB
from md_gie.md.integrators.nose_hoover import NoseHooverChains
from md_gie.md.integrators.rescaling import BussiVerlet
from md_gie.md.integrators.verlet import VelocityVerlet

__all__ = [
    "BussiVerlet",
    "Coupling",
    "Integrator",
    "LangevinBAOAB",
    "NoseHooverChains",
    "StochasticCellRescaling",
    "VelocityVerlet",
]
