"""Ctrl-C and SIGTERM as a wish to stop after the step at hand."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class StopRequest:
    """While active, the first SIGINT or SIGTERM only sets ``signal_number``.

    A second one acts as it would have without. Outside the main thread, where Python sets no
    signal handlers, nothing is caught.

    Attributes
    ----------
    signal_number : int
        0 until a signal arrives.
    """

    def __init__(self) -> None:
        self.signal_number = 0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signature
        self.signal_number = number
        self._restore()

    def _restore(self) -> None:
        while self._previous:
            number, handler = self._previous.popitem()
            signal.signal(number, handler)
