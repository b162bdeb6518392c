"""``md-gie relax``: relaxation of a structure from a configuration file."""

import argparse
from pathlib import Path
from typing import Any

from md_gie.cli.status import UNPHYSICAL


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("relax", help="relax a structure", allow_abbrev=False)
    parser.add_argument("config", metavar="CONFIG", type=Path, help="TOML file, see inputs/relax")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the files of an earlier relaxation"
    )
    parser.add_argument("--device", metavar="D", help="cpu, cuda, cuda:1 or auto")
    parser.set_defaults(command=_relax)


def _relax(arguments: argparse.Namespace) -> int:
    from md_gie.relax import relax_from_config

    outcome = relax_from_config(
        arguments.config, overwrite=arguments.overwrite, device=arguments.device
    )
    return 0 if outcome.ending == "converged" else UNPHYSICAL
