"""Ctrl-C and SIGTERM while LAMMPS runs: the process ends with a reason, wherever it is."""

import ctypes
import functools
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from md_gie.calculators.lammps_bridge.failure import Interrupted, end_process

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE_S = 0.4  # mpiexec kills a second after it has passed a signal on
_DEADLINE_S = 10


class StopSignals:
    """Ctrl-C and SIGTERM end the process where Python runs: in a hook or a force call.

    LAMMPS writes between force calls, so nothing is left half written. But Python looks at a
    signal only when it runs, and LAMMPS may be busy without it: before the potential is attached,
    or after ``unfix``. Then a thread ends the process, if LAMMPS was called from Python, and a
    deadline inside of ``lmp``.

    Parameters
    ----------
    where : callable
        Tells where the run is, such as ``step 20``; may be replaced.

    Attributes
    ----------
    communicator : mpi4py.MPI.Comm or None
        Of the ranks to end, once it is known.
    """

    def __init__(self, where: Callable[[], str]) -> None:
        self.where = where
        self.communicator: Any = None
        self._ending = False

    def listen(self) -> None:
        """Take the signals over from now on; a second one acts as it would have without."""
        for number in _SIGNALS:
            signal.signal(number, self._end)

    def watch(self) -> None:
        """Start the thread that ends the process where LAMMPS does not come back to Python."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=[reading], daemon=True).start()

    def set_deadline(self) -> None:
        """Let a signal kill after some seconds, and a second one at once, if Python does not run.

        Inside of ``lmp`` no thread of Python runs while LAMMPS is busy, but C does.
        """
        library = ctypes.CDLL(None)
        if not hasattr(library, "sysv_signal"):  # of glibc: a handler that serves once
            return
        library.sysv_signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
        for number in _SIGNALS:
            library.sysv_signal(number, compile_handler().address)

    def _end(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signature
        self._ending = True
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        end_process(Interrupted(number), self.where(), self.communicator)

    def _watch(self, reading: int) -> None:
        number = 0
        while number not in _SIGNALS:
            number = os.read(reading, 1)[0]
        time.sleep(_PATIENCE_S)
        if self._ending:
            return
        # Without MPI's abort, which belongs to the thread that is busy; mpiexec ends other ranks.
        end_process(Interrupted(number), self.where(), None)


@functools.cache
def compile_handler() -> Any:
    """Compile a handler of signals that tells Python, and sets an alarm that kills."""
    import numba

    types: Any = numba.types
    tell_python = types.ExternalFunction("PyErr_SetInterruptEx", types.int32(types.int32))
    set_alarm = types.ExternalFunction("alarm", types.uint32(types.uint32))

    @numba.cfunc(types.void(types.int32))
    def handle(number: int) -> None:
        tell_python(number)
        set_alarm(_DEADLINE_S)

    return handle


stop_signals = StopSignals(lambda: "start-up")
"""Those of this process."""
