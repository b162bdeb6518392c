"""The front for Python programs: errors are kept until the program asks for them."""

from typing import Any

import numpy as np

from md_gie.calculators.lammps_bridge import hooks
from md_gie.calculators.lammps_bridge.api import LammpsAPI
from md_gie.calculators.lammps_bridge.bridge import Bridge
from md_gie.calculators.lammps_bridge.failure import end_process
from md_gie.calculators.lammps_bridge.settings import Settings


class LibraryBridge(Bridge):
    """A potential attached to a LAMMPS of a Python program; see :class:`.Bridge`.

    Attributes
    ----------
    error : BaseException or None
        What ended the last run.
    """

    error: BaseException | None = None

    def raise_error(self) -> None:
        """Raise what ended the last run, if anything did; later runs are possible then."""
        error, self.error = self.error, None
        if error is not None:
            self._api.command("timer timeout off")
            raise error


def attach_library(lmp: Any, fix: str, settings: Settings) -> LibraryBridge:
    """Attach a potential to a ``lammps.lammps``; makes the fix external if there is none."""
    api = LammpsAPI(lmp.lmp, lmp.lib)
    communicator = api.communicator()
    if not api.has_fix(fix):
        lmp.command(f"fix {fix} all external pf/callback 1 1")

    def keep(error: BaseException, step: int) -> None:
        if communicator is not None:
            end_process(error, f"step {step}", communicator)
        bridge.error = error
        # Nothing of the failed step may look like a result.
        api.set_totals(fix, np.nan, np.full(6, np.nan))
        api.stop_run()

    bridge = LibraryBridge(api, fix, settings, communicator, keep)
    hooks.keep_alive(api, bridge)
    return bridge
