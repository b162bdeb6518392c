"""The molecular dynamics driver: configuration, integrators, observers and the loop."""

from md_gie.md.config import RunConfig
from md_gie.md.integrators import Integrator, LangevinBAOAB, VelocityVerlet
from md_gie.md.run import run_from_config
from md_gie.md.simulation import RunSummary, Simulation
from md_gie.md.state import MDState, maxwell_boltzmann

__all__ = [
    "Integrator",
    "LangevinBAOAB",
    "MDState",
    "RunConfig",
    "RunSummary",
    "Simulation",
    "VelocityVerlet",
    "maxwell_boltzmann",
    "run_from_config",
]
