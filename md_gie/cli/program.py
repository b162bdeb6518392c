"""The program: parser of all commands, and what becomes of errors."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from md_gie.cli import check, compile_command, info, lammps_command, relax, report, run, train
from md_gie.cli.status import MISTAKE, SIGNAL_BASE, UNPHYSICAL, complain
from md_gie.errors import MDGIEError, SimulationError

_COMMANDS = (run, relax, lammps_command, report, info, check, compile_command, train)
"""In the order in which ``--help`` shows them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; those of the process by default.

    Returns
    -------
    int
        0; 1 if a run stopped because its state was no longer physical; 2 for a user's mistake;
        130 after Ctrl-C and 143 after SIGTERM.
    """
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.command(arguments))
    except SimulationError as error:
        return complain(error, UNPHYSICAL)
    except BrokenPipeError:
        # Whoever read the results has gone; the interpreter must not write to them on exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNPHYSICAL
    except (MDGIEError, OSError) as error:
        return complain(error, MISTAKE)
    except KeyboardInterrupt:
        return complain("interrupted", SIGNAL_BASE + 2)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="md-gie",
        description="Molecular dynamics with DPA4 (SeZM) equivariant interatomic potentials.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"md-gie {version('md_gie')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add(commands)
    return parser
