"""``md-gie run``: molecular dynamics from a configuration file."""

import argparse
import sys
from pathlib import Path
from typing import Any

from md_gie.cli.status import MISTAKE, SIGNAL_BASE, complain
from md_gie.errors import MDGIEError, SimulationError


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("run", help="run molecular dynamics", allow_abbrev=False)
    parser.add_argument("config", metavar="CONFIG", type=Path, help="TOML file, see inputs/runs")
    parser.add_argument("--resume", action="store_true", help="go on from the newest restart file")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the files of an earlier run"
    )
    parser.add_argument(
        "--steps", type=_count, metavar="N", help="last step, counted from the start of the run"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would run, how fast; write nothing"
    )
    parser.add_argument("--no-report", action="store_true", help="write no HTML report at the end")
    parser.add_argument("--device", metavar="D", help="cpu, cuda, cuda:1 or auto")
    parser.set_defaults(command=_run)


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        shown = text if len(text) <= 60 else f"{text[:60]}…"
        raise argparse.ArgumentTypeError(f"{shown!r} steps cannot be run; give an integer from 0")
    return number


def _run(arguments: argparse.Namespace) -> int:
    from md_gie.md import plan_from_config, run_from_config

    if arguments.resume and arguments.overwrite:
        return complain("--resume goes on and --overwrite starts anew; give one", MISTAKE)
    if arguments.dry_run:
        if arguments.resume:
            return complain("--dry-run looks at a new run; leave out --resume", MISTAKE)
        plan_from_config(
            arguments.config,
            overwrite=arguments.overwrite,
            n_steps=arguments.steps,
            device=arguments.device,
        )
        return 0
    try:
        outcome = run_from_config(
            arguments.config,
            resume=arguments.resume,
            overwrite=arguments.overwrite,
            n_steps=arguments.steps,
            device=arguments.device,
        )
    except SimulationError:
        # What happened before is what one wants to see.
        _report(arguments)
        raise
    if not outcome.signal_number:
        _report(arguments)
        return 0
    return complain(
        f"stopped by a signal after step {outcome.last_step}; go on with --resume",
        SIGNAL_BASE + outcome.signal_number,
    )


def _report(arguments: argparse.Namespace) -> None:
    """Write the report of a run that has ended; that it cannot be written is no failure of it."""
    if arguments.no_report:
        return
    from md_gie.md import RunConfig
    from md_gie.report import write_report

    trajectory = RunConfig.load(arguments.config).trajectory_file
    try:
        path = write_report(trajectory, of_any_run=True)
    except (MDGIEError, OSError) as error:
        print(f"no report: {error}", file=sys.stderr)
    else:
        print(f"report: {path}", file=sys.stderr)
