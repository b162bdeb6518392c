"""``md-gie info``: what a model or a trajectory is."""

import argparse
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "info", help="describe a model or a trajectory", allow_abbrev=False
    )
    parser.add_argument(
        "subject", metavar="MODEL|TRAJECTORY", help="file, or a bundled model's name"
    )
    parser.add_argument("--branch", metavar="NAME", help="of a multi-task model")
    parser.set_defaults(command=_info)


def _info(arguments: argparse.Namespace) -> int:
    subject = Path(arguments.subject)
    if subject.is_file() and _is_trajectory(subject):
        from md_gie.trajectory.describe import describe_trajectory

        print(describe_trajectory(subject))
        return 0
    from md_gie.engine.describe import describe_model

    print(describe_model(arguments.subject, arguments.branch))
    return 0


def _is_trajectory(path: Path) -> bool:
    if path.suffix.lower() in (".extxyz", ".xyz", ".traj"):
        return True
    with path.open("rb") as file:
        return file.read(8) == b"\x89HDF\r\n\x1a\n"
