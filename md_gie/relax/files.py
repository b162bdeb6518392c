"""What a relaxation writes, looked at before any heavy work."""

from pathlib import Path

from ase.io.formats import UnknownFileTypeError, filetype, get_ioformat

from md_gie.errors import ConfigError
from md_gie.relax.config import RelaxConfig


def check_outputs(config: RelaxConfig, *, overwrite: bool) -> None:
    """Refuse files that exist, and names for which ASE has no format.

    Raises
    ------
    ConfigError
        Naming key and file.
    """
    for key, file in config.outputs.items():
        where = f"{config.path}, [output] {key}"
        if file.exists() and not overwrite:
            raise ConfigError(
                f"{where}: {file} exists; replace it with --overwrite, or name another file"
            )
        if not _is_writable(file, append=key == "trajectory"):
            several = " several structures in" if key == "trajectory" else ""
            raise ConfigError(
                f"{where}: ASE writes{several} no format with the ending of {file}; .extxyz keeps "
                "everything"
            )


def _is_writable(file: Path, *, append: bool) -> bool:
    try:
        found = get_ioformat(filetype(file.name, read=False))
    except UnknownFileTypeError:
        return False
    several = not found.single and (found.acceptsfd or found.can_append)
    return bool(found.can_write and (several or not append))
