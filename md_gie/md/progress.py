"""Progress of a run: a bar on a terminal, a few plain lines anywhere else."""

import time
from typing import Any, TextIO

from tqdm import tqdm

_SECONDS_BETWEEN_LINES = 30.0
_SECONDS_BETWEEN_DRAWINGS = 0.2


class Progress:
    """Shows steps done, speed and the time that is left.

    Parameters
    ----------
    first, last : int
        Step numbers between which the run goes.
    stream : TextIO
        A terminal gets a bar that is drawn over itself; a file or a pipe gets a line for every
        tenth of the run, and every half minute.
    """

    def __init__(self, first: int, last: int, stream: TextIO) -> None:
        self._first, self._last, self._stream = first, last, stream
        self._start = self._written = time.monotonic()
        self._tenth = 0
        self._bar: Any = None
        if stream.isatty():
            self._bar = tqdm(
                initial=first,
                total=last,
                file=stream,
                unit="step",
                dynamic_ncols=True,
                smoothing=0.05,
            )

    def due(self, step: int) -> bool:
        """Whether :meth:`update` should be called for a step."""
        since = time.monotonic() - self._written
        if self._bar is not None:
            return since > _SECONDS_BETWEEN_DRAWINGS or step == self._last
        return since > _SECONDS_BETWEEN_LINES or self._tenth_of(step) != self._tenth

    def update(self, step: int, temperature_K: float, drift_meV: float) -> None:
        """Report a step, its temperature and the change of the conserved energy per atom."""
        self._tenth, self._written = self._tenth_of(step), time.monotonic()
        facts = f"T {temperature_K:.0f} K, drift {drift_meV:+.2f} meV/atom"
        if self._bar is not None:
            self._bar.set_postfix_str(facts, refresh=False)
            self._bar.update(step - self._bar.n)
            return
        done = step - self._first
        each = (self._written - self._start) / max(1, done)
        self._stream.write(
            f"step {step}/{self._last} ({self._percent(step)} %), {facts}, "
            f"{1.0 / max(each, 1e-9):.3g} steps/s, {clock_time(each * (self._last - step))} left\n"
        )
        self._stream.flush()

    def write_above(self, text: str, stream: TextIO) -> None:
        """Write a line to another stream without tearing the bar."""
        if self._bar is not None:
            tqdm.write(text, file=stream)
        else:
            stream.write(f"{text}\n")
        stream.flush()

    def close(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.close()

    def _percent(self, step: int) -> int:
        return 100 * (step - self._first) // max(1, self._last - self._first)

    def _tenth_of(self, step: int) -> int:
        return self._percent(step) // 10


def clock_time(seconds: float) -> str:
    """Return a time as hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
