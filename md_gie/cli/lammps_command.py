"""``md-gie lammps``: a LAMMPS script with a potential of md_gie."""

import argparse
from typing import Any

_USAGE = """\
usage: md-gie lammps -in SCRIPT [LAMMPS flags]
       md-gie lammps --pythonpath

Run a LAMMPS script whose hook is 'fix ID all gie MODEL El1 El2 ... [option=value ...]', with the
elements in the order of the types, on the LAMMPS of the Python package. For several processes:
mpiexec -n N md-gie lammps -in SCRIPT

options of the hook: dtype=float32|float64, device=, kernels=, branch=, skin= (Å),
                     halo=features|wide, max_temperature_K=, max_temperature_jump_K=,
                     max_energy_jump_eV=
--pythonpath         print what PYTHONPATH must be for an lmp with Python inside
"""


def add(commands: Any) -> None:
    """Add the command's parser."""
    # LAMMPS's flags begin with one dash and belong to LAMMPS.
    parser = commands.add_parser(
        "lammps", help="run a LAMMPS script with a potential", prefix_chars="+", add_help=False
    )
    parser.add_argument("words", nargs="*")
    parser.set_defaults(command=_lammps)


def _lammps(arguments: argparse.Namespace) -> int:
    words: list[str] = arguments.words
    if words in (["--help"], ["-h"]):
        print(_USAGE, end="")
        return 0
    from md_gie.calculators.lammps_bridge.signals import stop_signals

    if words != ["--pythonpath"]:
        # Before PyTorch is imported, which takes seconds.
        stop_signals.listen()
        stop_signals.watch()
    from md_gie.calculators.lammps_bridge.launcher import launch, python_path

    if words == ["--pythonpath"]:
        print(python_path())
        return 0
    return launch(words)
