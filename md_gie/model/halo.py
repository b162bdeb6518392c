"""What a model needs to know where several processes share one configuration."""

from collections.abc import Callable
from typing import Protocol

from torch import Tensor


class Halo(Protocol):
    """Own atoms first, then copies of atoms that other processes (or periodic images) own.

    Attributes
    ----------
    n_own : int
        Atoms whose energies this process computes; the rows ``n_own:`` are copies.
    exchange : callable or None
        From features (R, n_own, C) of own atoms to features (R, N, C) of all rows, each copy with
        its owner's values; differentiable. All processes call it equally often. None if there
        are so many copies that the own atoms' energies are right without it.
    """

    @property
    def n_own(self) -> int:
        """Number of own atoms."""
        ...

    @property
    def exchange(self) -> Callable[[Tensor], Tensor] | None:
        """Features of own atoms to features of all rows."""
        ...
