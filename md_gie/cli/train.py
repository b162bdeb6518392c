"""``md-gie train``: training from a configuration file."""

import argparse
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("train", help="train a potential", allow_abbrev=False)
    parser.add_argument("config", metavar="CONFIG", type=Path, help="TOML file")
    parser.add_argument("--resume", action="store_true", help="go on from the last saved state")
    parser.set_defaults(command=_train)


def _train(arguments: argparse.Namespace) -> int:
    from md_gie.training import train_from_config

    train_from_config(arguments.config, resume=arguments.resume)
    return 0
