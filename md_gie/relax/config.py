"""Configuration of a relaxation: frozen dataclasses from TOML, checked before any heavy work."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from md_gie.errors import ConfigError
from md_gie.md.config import ModelTable, NeighborsTable, StructureTable
from md_gie.md.tables import bounded, load_toml, read_tables


@dataclass(frozen=True)
class RelaxTable:
    """``[relax]``: how, and until when.

    ``cell`` is what may change beside positions: nothing, its volume, or all of it. The largest
    force, and the largest component of the stress less the pressure, end a relaxation.
    """

    optimizer: Literal["fire", "lbfgs", "bfgs"] = "lbfgs"
    max_force_eV_A: float = bounded(0.01, above=0.0, at_most=1e3)
    max_stress_GPa: float = bounded(0.05, above=0.0, at_most=1e3)
    max_steps: int = bounded(500, at_least=0, at_most=10**6)
    cell: Literal["fixed", "volume", "full"] = "fixed"
    pressure_GPa: float = bounded(0.0, at_least=-1e4, at_most=1e4)


@dataclass(frozen=True)
class OutputTable:
    """``[output]``: files, relative to the current directory.

    ``structure`` gets the last configuration, and ``trajectory``, if named, every step; both in
    the format that the name's ending tells ASE.
    """

    structure: str
    trajectory: str | None = None


@dataclass(frozen=True)
class RelaxConfig:
    """What ``md-gie relax`` does.

    Parameters
    ----------
    path : Path
        Where the configuration was read from; files that it names are relative to its folder.
    model, structure, neighbors, relax, output
        One dataclass for each table.
    """

    path: Path
    model: ModelTable
    structure: StructureTable
    neighbors: NeighborsTable
    relax: RelaxTable
    output: OutputTable

    @classmethod
    def load(cls, path: str | Path) -> "RelaxConfig":
        """Read a TOML file.

        Raises
        ------
        FileNotFoundError
            No such file.
        ConfigError
            Not TOML, an unknown or missing key, a wrong type, or values that do not go together.
        """
        path = Path(path)
        config = cls(path, **read_tables(load_toml(path), _TABLES, path))
        config._check()
        return config

    @property
    def structure_file(self) -> Path:
        """The starting structure."""
        return self.path.parent / self.structure.file

    @property
    def model_source(self) -> str:
        """The bundled model's name, or the model file with its folder."""
        file = self.path.parent / self.model.name
        return str(file) if file.is_file() else self.model.name

    @property
    def outputs(self) -> dict[str, Path]:
        """Files to write, by key."""
        named = {"structure": self.output.structure, "trajectory": self.output.trajectory}
        return {key: Path(text) for key, text in named.items() if text is not None}

    def to_json(self) -> str:
        """Return every setting, defaults and overrides included."""
        return json.dumps(dataclasses.asdict(self), default=str)

    def _check(self) -> None:
        for key, file in self.outputs.items():
            where = f"{self.path}, [output] {key}"
            if not file.name or file.is_dir():
                raise ConfigError(f'{where}: "{file}" is a folder or no name; name a file')
            if not file.parent.is_dir():
                raise ConfigError(
                    f"{where}: there is no folder {file.parent}; make it, or name another"
                )
            if file.resolve() in (self.path.resolve(), self.structure_file.resolve()):
                raise ConfigError(f"{where}: {file} is an input; name another file")
        if self.relax.cell == "fixed" and self.relax.pressure_GPa:
            raise ConfigError(
                f'{self.path}, [relax] pressure_GPa: cell = "fixed" has no pressure; choose '
                '"volume" or "full", or leave it out'
            )


_TABLES: dict[str, type] = {
    "model": ModelTable,
    "structure": StructureTable,
    "neighbors": NeighborsTable,
    "relax": RelaxTable,
    "output": OutputTable,
}
