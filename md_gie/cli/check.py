"""``md-gie check``: a self-test of a potential on the user's own structure."""

import argparse
import sys
from pathlib import Path
from typing import Any

from md_gie.cli.status import MISTAKE, UNPHYSICAL, complain


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "check", help="test a potential on a structure of yours", allow_abbrev=False
    )
    parser.add_argument(
        "structure", metavar="STRUCTURE", type=Path, help="file in a format that ASE reads"
    )
    parser.add_argument(
        "--model", metavar="MODEL", required=True, help="file, or a bundled model's name"
    )
    parser.add_argument("--device", metavar="D", default="auto", help="cpu, cuda, cuda:1 or auto")
    parser.add_argument("--dtype", metavar="T", default="float32", help="float32 or float64")
    parser.add_argument("--branch", metavar="NAME", help="of a multi-task model")
    parser.add_argument("--timestep-fs", metavar="DT", type=float, help="of the short runs")
    parser.add_argument(
        "--temperature-K", metavar="T", type=float, default=300.0, help="of drawn velocities"
    )
    parser.add_argument(
        "--no-compile",
        action="store_true",
        help="leave out the compiled engine, the longest part",
    )
    parser.set_defaults(command=_check)


def _check(arguments: argparse.Namespace) -> int:
    from md_gie.check import check_structure
    from md_gie.structure import read_structure

    timestep = arguments.timestep_fs
    if timestep is not None and not 0 < timestep <= 100:
        return complain(f"a timestep of {timestep:g} fs cannot be run; give 0 to 100", MISTAKE)
    if not 0 <= arguments.temperature_K <= 1e6:
        return complain(f"{arguments.temperature_K:g} K is no temperature; give 0 to 1e6", MISTAKE)
    structure = read_structure(arguments.structure)
    try:
        report = check_structure(
            structure,
            arguments.model,
            device=arguments.device,
            dtype=arguments.dtype,
            branch=arguments.branch,
            compiles=not arguments.no_compile,
            timestep_fs=timestep,
            temperature_K=arguments.temperature_K,
            report=lambda part: print(f"{part} …", file=sys.stderr, flush=True),
        )
    except ValueError as error:
        return complain(error, MISTAKE)
    print(report)
    return 0 if report.passed else UNPHYSICAL
