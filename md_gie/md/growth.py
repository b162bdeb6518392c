"""Log of growing sizes: what makes a run that fitted into memory fit no more."""

from collections.abc import Callable
from typing import Protocol

import torch

from md_gie.md.state import MDState
from md_gie.md.timing import peak_memory_bytes

STEP = 1.05
"""Growth that is worth a line: that of the capacities of CUDA graphs."""


class CountsEdges(Protocol):
    """What evaluates; ``n_edges`` is of its last call."""

    n_edges: int


class GrowthLog:
    """Observer that writes a line when edges outgrow those of earlier steps by 5 %.

    Parameters
    ----------
    forces : CountsEdges
    device : torch.device
        Whose peak memory is told, beside that of the host.
    write : callable
        Takes a line.
    """

    every = 1

    def __init__(
        self, forces: CountsEdges, device: torch.device, write: Callable[[str], object]
    ) -> None:
        self._forces, self._device, self._write = forces, device, write
        self._most: int | None = None

    def observe(self, state: MDState) -> None:
        """Compare the edges of a state that has just been evaluated."""
        now = self._forces.n_edges
        if self._most is None:
            self._most = now
        elif now > STEP * self._most:
            memory = ", ".join(
                f"{name} {size / 2**20:.0f} MiB"
                for name, size in peak_memory_bytes(self._device).items()
            )
            self._write(
                f"step {state.step}: edges grew from {self._most} to {now}; peak memory so far "
                f"{memory or 'unknown'}"
            )
            self._most = now
