"""Command line: ``md-gie run | info | train``; parses, calls, prints.

Heavy modules are imported when a command needs them, so that ``--help`` answers at once.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from md_gie.errors import MDGIEError, SimulationError

_MISTAKE = 2
_UNPHYSICAL = 1
_SIGNAL_BASE = 128


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
        return _complain(error, _UNPHYSICAL)
    except BrokenPipeError:
        # Whoever read the results has gone; the interpreter must not write to them on exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _UNPHYSICAL
    except (MDGIEError, OSError) as error:
        return _complain(error, _MISTAKE)
    except KeyboardInterrupt:
        return _complain("interrupted", _SIGNAL_BASE + 2)


def _complain(message: object, status: int) -> int:
    print(f"md-gie: {message}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="md-gie",
        description="Molecular dynamics with DPA4 (SeZM) equivariant interatomic potentials.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"md-gie {version('md_gie')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run molecular dynamics", allow_abbrev=False)
    run.add_argument("config", metavar="CONFIG", type=Path, help="TOML file, see inputs/runs")
    run.add_argument("--resume", action="store_true", help="go on from the newest restart file")
    run.add_argument("--overwrite", action="store_true", help="replace the files of an earlier run")
    run.add_argument(
        "--steps", type=_count, metavar="N", help="last step, counted from the start of the run"
    )
    run.add_argument("--device", metavar="D", help="cpu, cuda, cuda:1 or auto")
    run.set_defaults(command=_run)

    info = commands.add_parser("info", help="describe a model or a trajectory", allow_abbrev=False)
    info.add_argument("subject", metavar="MODEL|TRAJECTORY", help="file, or a bundled model's name")
    info.set_defaults(command=_info)

    train = commands.add_parser("train", help="train a potential", allow_abbrev=False)
    train.add_argument("config", metavar="CONFIG", type=Path, help="TOML file")
    train.add_argument("--resume", action="store_true", help="go on from the last saved state")
    train.set_defaults(command=_train)
    return parser


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
    from md_gie.md import run_from_config

    if arguments.resume and arguments.overwrite:
        return _complain("--resume goes on and --overwrite starts anew; give one", _MISTAKE)
    outcome = run_from_config(
        arguments.config,
        resume=arguments.resume,
        overwrite=arguments.overwrite,
        n_steps=arguments.steps,
        device=arguments.device,
    )
    if not outcome.signal_number:
        return 0
    return _complain(
        f"stopped by a signal after step {outcome.last_step}; go on with --resume",
        _SIGNAL_BASE + outcome.signal_number,
    )


def _info(arguments: argparse.Namespace) -> int:
    subject = Path(arguments.subject)
    if subject.is_file() and _starts_as_hdf5(subject):
        from md_gie.trajectory.describe import describe_trajectory

        print(describe_trajectory(subject))
        return 0
    from md_gie.engine import load_potential

    engine = load_potential(arguments.subject, device="cpu")
    print(f"model      {engine.name}")
    print(f"elements   {' '.join(engine.species)}")
    print(f"cutoff     {engine.cutoff:g} Å")
    return 0


def _starts_as_hdf5(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(8) == b"\x89HDF\r\n\x1a\n"


def _train(arguments: argparse.Namespace) -> int:
    from md_gie.training import train_from_config

    train_from_config(arguments.config, resume=arguments.resume)
    return 0
