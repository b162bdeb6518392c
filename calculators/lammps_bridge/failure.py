"""How a run ends if forces cannot be given: at that step, on every rank, with a reason."""

import ctypes
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from md_gie.errors import MDGIEError

FAILED = 1
MISTAKE = 2
_SIGNAL_BASE = 128
_GRACE_S = 0.5  # mpiexec ends at an abort, without what it has not yet passed on
_LIMIT_S = 20


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


temporary_files: list[Path] = []
"""Removed when the run ends, in whatever way."""


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
    signal.alarm(_LIMIT_S)  # kills, should a full pipe or MPI's abort not let this end
    sys.stdout.flush()
    sys.stderr.write(report)
    sys.stderr.flush()
    # LAMMPS writes through C streams, whose buffers would be lost.
    ctypes.CDLL(None).fflush(None)
    remove_files()
    status = exit_status(error)
    if communicator is not None:
        time.sleep(_GRACE_S)
        communicator.Abort(status)
    os._exit(status)


def remove_files() -> None:
    """Remove the run's temporary files."""
    while temporary_files:
        temporary_files.pop().unlink(missing_ok=True)


def exit_status(error: BaseException) -> int:
    """Exit status of the process: 2 for a user's mistake, 128 + n after signal n, else 1."""
    if isinstance(error, Interrupted):
        return _SIGNAL_BASE + error.number
    if isinstance(error, (ValueError, OSError)):
        return MISTAKE
    return FAILED
