"""What the ``python`` lines of a script call, inside of a ``lmp`` program."""

from collections.abc import Sequence
from typing import Any

from md_gie.calculators.lammps_bridge import hooks
from md_gie.calculators.lammps_bridge.api import LammpsAPI
from md_gie.calculators.lammps_bridge.bridge import Bridge
from md_gie.calculators.lammps_bridge.invoke import InvokeBridge, check_build, find_invoke_bridge
from md_gie.calculators.lammps_bridge.settings import parse_settings


def attach_embedded(pointer: Any, fix: str, words: Sequence[str], *, invoke: bool) -> None:
    """Attach a potential; an error ends the process with its reason."""
    api = None
    try:
        api = LammpsAPI(pointer)
        if invoke:
            check_build(api)
        kind: type[Bridge] = InvokeBridge if invoke else Bridge
        hooks.attach_bridge(api, fix, parse_settings(words), kind)
        hooks.listen_to_signals()
    except BaseException as error:  # noqa: BLE001 - LAMMPS would print it without its text
        hooks.end_at_hook(api, error)


def post_force(pointer: Any) -> None:
    """Give the forces of the step to LAMMPS; an error ends the process with its reason."""
    api = None
    try:
        api = LammpsAPI(pointer)
        find_invoke_bridge(hooks.find_bridges(api)).post_force()
    except BaseException as error:  # noqa: BLE001 - an exception on one rank would hang the others
        hooks.end_at_hook(api, error)
