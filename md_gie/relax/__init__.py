"""Relaxation of structures: ASE's optimizers over md_gie's calculator, from a TOML file."""

from md_gie.relax.config import RelaxConfig
from md_gie.relax.run import RelaxOutcome, relax_from_config

__all__ = ["RelaxConfig", "RelaxOutcome", "relax_from_config"]
