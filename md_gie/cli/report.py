"""``md-gie report``: a page that shows what a run did."""

import argparse
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "report", help="show a trajectory in an HTML file", allow_abbrev=False
    )
    parser.add_argument("trajectory", metavar="TRAJECTORY", type=Path, help="what a run wrote")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="NAME.report.html beside the trajectory if left out",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace any file of that name")
    parser.set_defaults(command=_report)


def _report(arguments: argparse.Namespace) -> int:
    from md_gie.report import write_report

    path = write_report(arguments.trajectory, arguments.output, overwrite=arguments.overwrite)
    print(path)
    return 0
