"""``md-gie compile``: a model and its compiled step in one file."""

import argparse
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "compile", help="compile a model ahead of time for this machine", allow_abbrev=False
    )
    parser.add_argument("model", metavar="MODEL", help="file, or a bundled model's name")
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="PKG")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument("--tf32", action="store_true", help="matrix products in TF32 on a GPU")
    parser.add_argument("--branch", metavar="NAME", help="of a multi-task model")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing file")
    parser.set_defaults(command=_compile)


def _compile(arguments: argparse.Namespace) -> int:
    from md_gie.engine.load import find_device, resolve_model
    from md_gie.engine.package import write_package

    output: Path = arguments.output
    if output.exists() and not arguments.overwrite:
        raise FileExistsError(f"{output} exists; choose another name or add --overwrite")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"{output.parent} is not a folder; make it first")
    about = write_package(
        output,
        resolve_model(arguments.model),
        device=find_device(arguments.device),
        dtype=arguments.dtype,
        tf32=arguments.tf32,
        branch=arguments.branch,
    )
    made_for = ", ".join(f"{key} {value}" for key, value in about["made_for"].items())
    print(f"{output}: {about['model']} ({', '.join(about['species'])}) for {made_for}")
    return 0
