"""Where a run's time goes, and how much memory it took."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Clock:
    """Seconds spent in named sections.

    Parameters
    ----------
    device : torch.device
        On CUDA a section ends when the device has finished its work.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.seconds: dict[str, float] = {}

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Add the time of a block to a section."""
        start = time.perf_counter()
        try:
            yield
        finally:
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)
            spent = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent

    def reset(self) -> None:
        """Forget all sections."""
        self.seconds.clear()


def peak_memory_bytes(device: torch.device) -> dict[str, int]:
    """Largest memory so far: ``host`` of the process, ``device`` of torch on CUDA."""
    peaks = {}
    if sys.platform != "win32":
        import resource

        # Kilobytes, except on macOS.
        unit = 1 if sys.platform == "darwin" else 1024
        peaks["host"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    if device.type == "cuda":
        peaks["device"] = torch.cuda.max_memory_allocated(device)
    return peaks
