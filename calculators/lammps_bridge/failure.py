"""How a run ends if forces cannot be given: at that step, on every rank, with a reason."""

import ctypes
import os
import signal
import sys
import time
import traceback
from types import FrameType
from typing import Any, NoReturn

from md_gie.errors import MDGIEError

FAILED = 1
MISTAKE = 2
_SIGNAL_BASE = 128
_GRACE_S = 0.5  # mpiexec ends at an abort, without what it has not yet passed on


class Interrupted(BaseException):
    """A signal asked the run to stop.

    Parameters
    ----------
    number : int
        The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


class StopSignals:
    """Ctrl-C and SIGTERM as a wish to stop, looked at before each force call.

    A second one acts as it would have without.

    Attributes
    ----------
    number : int
        0 until a signal arrives.
    """

    def __init__(self) -> None:
        self.number = 0

    def listen(self) -> None:
        """Take the signals over from now on."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def check(self) -> None:
        """Raise :class:`Interrupted` if a signal has arrived."""
        if self.number:
            raise Interrupted(self.number)

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signature
        self.number = number
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)


def end_process(error: BaseException, where: str, communicator: Any) -> NoReturn:
    """Print the reason, flush what LAMMPS has written, and end this and all other ranks.

    An exception could not pass through LAMMPS, and the other ranks would wait for this one for
    ever.

    Parameters
    ----------
    error : BaseException
        What went wrong; an unexpected error is printed with its traceback.
    where : str
        Such as ``step 20``.
    communicator : mpi4py.MPI.Comm or None
    """
    if isinstance(error, KeyboardInterrupt):
        error = Interrupted(signal.SIGINT)
    report = f"md-gie: LAMMPS ends at {where}: {str(error) or type(error).__name__}\n"
    if not isinstance(error, (MDGIEError, Interrupted, OSError)):
        report = "".join(traceback.format_exception(error)) + report
    sys.stdout.flush()
    sys.stderr.write(report)
    sys.stderr.flush()
    # LAMMPS writes through C streams, whose buffers would be lost.
    ctypes.CDLL(None).fflush(None)
    status = exit_status(error)
    if communicator is not None:
        time.sleep(_GRACE_S)
        communicator.Abort(status)
    os._exit(status)


def exit_status(error: BaseException) -> int:
    """Exit status of the process: 2 for a user's mistake, 128 + n after signal n, else 1."""
    if isinstance(error, Interrupted):
        return _SIGNAL_BASE + error.number
    if isinstance(error, (ValueError, OSError)):
        return MISTAKE
    return FAILED
