"""The molecular dynamics driver: configuration, integrators, observers and the loop."""

from md_gie.md.config import RunConfig
from md_gie.md.differentiable import differentiable_forces, model_energy, roll
from md_gie.md.freedom import Freedom, maxwell_boltzmann
from md_gie.md.integrators import (
    BussiVerlet,
    Integrator,
    LangevinBAOAB,
    NoseHooverChains,
    StochasticCellRescaling,
    VelocityVerlet,
)
from md_gie.md.plan import plan_from_config
from md_gie.md.run import run_from_config
from md_gie.md.schedules import Schedule
from md_gie.md.simulation import RunSummary, Simulation
from md_gie.md.state import MDState

__all__ = [
    "BussiVerlet",
    "Freedom",
    "Integrator",
    "LangevinBAOAB",
    "MDState",
    "NoseHooverChains",
    "RunConfig",
    "RunSummary",
    "Schedule",
    "Simulation",
    "StochasticCellRescaling",
    "VelocityVerlet",
    "differentiable_forces",
    "maxwell_boltzmann",
    "model_energy",
    "plan_from_config",
    "roll",
    "run_from_config",
]
