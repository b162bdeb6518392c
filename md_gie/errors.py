"""Exceptions that md_gie raises beside the built-in ones; each carries its data."""

from typing import Any


class MDGIEError(Exception):
    """Base of md_gie's own exceptions: a user's mistake or a run that cannot go on.

    Parameters
    ----------
    message : str
        One sentence: what came, what is possible, what to do.
    **data
        The values named in the message, kept as attributes of the exception.
    """

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.data = data


class ConfigError(MDGIEError, ValueError):
    """A run or training configuration has an unknown key, a wrong type or an impossible value."""


class CheckpointError(MDGIEError, ValueError):
    """A model file is damaged, foreign, or uses an option that md_gie does not implement."""


class StructureError(MDGIEError, ValueError):
    """A structure cannot be evaluated: numbers, cell, overlap of atoms, or an unknown element."""


class TrajectoryError(MDGIEError, ValueError):
    """A trajectory or restart file is damaged, in use, or does not belong to the run."""


class SimulationError(MDGIEError, RuntimeError):
    """A run stopped because its state is no longer physical; what was written before is intact."""


class NeighborOverflowError(MDGIEError, RuntimeError):
    """More edges than a fixed capacity holds."""


class CompilationError(MDGIEError, RuntimeError):
    """A model cannot be compiled for this machine."""
