"""Molecular dynamics with DPA4 (SeZM) equivariant interatomic potentials.

Public names are resolved on first use, so that importing the package needs no PyTorch.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "DynamicsGuard": "md_gie.calculators.dynamics_guard",
    "GIECalculator": "md_gie.calculators.ase_calculator",
    "NeighborCache": "md_gie.neighbors",
    "Structure": "md_gie.structure",
    "load_potential": "md_gie.engine",
}

__all__ = ["DynamicsGuard", "GIECalculator", "NeighborCache", "Structure", "load_potential"]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'md_gie' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
