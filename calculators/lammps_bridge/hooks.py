"""Bridges that are attached, kept alive for as long as LAMMPS may call them."""

from md_gie.calculators.lammps_bridge.api import LammpsAPI
from md_gie.calculators.lammps_bridge.bridge import Bridge
from md_gie.calculators.lammps_bridge.failure import end_process
from md_gie.calculators.lammps_bridge.settings import Settings
from md_gie.calculators.lammps_bridge.signals import stop_signals

_attached: dict[tuple[int, str], Bridge] = {}


def attach_bridge(
    api: LammpsAPI, fix: str, settings: Settings, kind: type[Bridge] = Bridge
) -> Bridge:
    """Attach a potential whose errors end the process; see :class:`.Bridge`.

    Attaching again to a fix of the same ID, after ``clear`` or ``unfix``, replaces the bridge.
    """
    communicator = api.communicator()

    def end(error: BaseException, step: int) -> None:
        end_process(error, f"step {step}", communicator)

    bridge = kind(api, fix, settings, communicator, end)
    stop_signals.communicator = communicator
    stop_signals.where = lambda: f"step {api.step}"
    keep_alive(api, bridge)
    return bridge


def keep_alive(api: LammpsAPI, bridge: Bridge) -> None:
    """Hold the bridge until another one takes its place."""
    _attached[int(api.handle.value or 0), bridge.fix] = bridge


def find_bridges(api: LammpsAPI) -> list[Bridge]:
    """Bridges of one LAMMPS, in the order in which they were attached."""
    return [bridge for (handle, _), bridge in _attached.items() if handle == api.handle.value]


def forget(api: LammpsAPI) -> None:
    """Let go of the bridges of a LAMMPS that is closed."""
    for key in [key for key in _attached if key[0] == api.handle.value]:
        del _attached[key]
    stop_signals.where = lambda: "the end of the script"
