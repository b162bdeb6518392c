"""What the ``python`` lines of a script call, inside of a ``lmp`` program."""

from collections.abc import Sequence
from typing import Any, NoReturn

from md_gie.calculators.lammps_bridge.failure import end_process
from md_gie.calculators.lammps_bridge.signals import stop_signals


def attach_embedded(pointer: Any, fix: str, words: Sequence[str], *, invoke: bool) -> None:
    """Attach a potential; an error ends the process with its reason."""
    stop_signals.listen()
    try:
        # Not before: PyTorch takes seconds to import, in which a signal may arrive.
        from md_gie.calculators.lammps_bridge.api import LammpsAPI

        api = LammpsAPI(pointer)
        stop_signals.communicator = api.communicator()
        if stop_signals.communicator is None:  # else the starter of MPI kills
            stop_signals.set_deadline()
        from md_gie.calculators.lammps_bridge import hooks
        from md_gie.calculators.lammps_bridge.bridge import Bridge
        from md_gie.calculators.lammps_bridge.invoke import InvokeBridge, check_build
        from md_gie.calculators.lammps_bridge.settings import parse_settings

        if invoke:
            check_build(api)
        kind: type[Bridge] = InvokeBridge if invoke else Bridge
        hooks.attach_bridge(api, fix, parse_settings(words), kind)
    except BaseException as error:  # noqa: BLE001 - LAMMPS would print it without its text
        _end(error)


def post_force(pointer: Any) -> None:
    """Give the forces of the step to LAMMPS; an error ends the process with its reason."""
    try:
        from md_gie.calculators.lammps_bridge import hooks
        from md_gie.calculators.lammps_bridge.api import LammpsAPI
        from md_gie.calculators.lammps_bridge.invoke import find_invoke_bridge

        find_invoke_bridge(hooks.find_bridges(LammpsAPI(pointer))).post_force()
    except BaseException as error:  # noqa: BLE001 - an exception on one rank would hang the others
        _end(error)


def _end(error: BaseException) -> NoReturn:
    end_process(error, "the md_gie hook", stop_signals.communicator)
