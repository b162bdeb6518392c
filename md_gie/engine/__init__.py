"""Engines: potentials ready to be evaluated by drivers and bridges."""

from md_gie.engine.base import Engine, Evaluation
from md_gie.engine.load import bundled_models, load_potential, resolve_model

__all__ = ["Engine", "Evaluation", "bundled_models", "load_potential", "resolve_model"]
