"""Run configurations: frozen dataclasses from TOML, checked before any heavy work."""

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from md_gie.engine.guards import Limits
from md_gie.errors import ConfigError
from md_gie.md.ensembles import MOST_STEPS, MDTable, check_ensemble
from md_gie.md.tables import bounded, check_range, load_toml, read_tables
from md_gie.trajectory import RestartFiles


@dataclass(frozen=True)
class ModelTable:
    """``[model]``: the potential and how it is evaluated, as in ``md_gie.load_potential``.

    ``name`` is a bundled model's name or a file, relative to the configuration. ``compile`` of
    ``auto`` is ``capture`` on a GPU, where a plain step of a small system takes ten times as long.
    """

    name: str
    device: str = "auto"
    dtype: Literal["float32", "float64"] = "float32"
    kernels: Literal["auto", "triton", "reference"] = "auto"
    compile: bool | Literal["auto", "graph", "capture"] = "auto"
    tf32: bool = False
    branch: str | None = None


@dataclass(frozen=True)
class StructureTable:
    """``[structure]``: the starting structure, relative to the configuration."""

    file: str


@dataclass(frozen=True)
class NeighborsTable:
    """``[neighbors]``: the Verlet list."""

    skin_A: float = bounded(0.5, at_least=0.0, at_most=20.0)


@dataclass(frozen=True)
class OutputTable:
    """``[output]``: files, relative to the current directory, and how many steps apart they are.

    Frames come every ``trajectory_every`` steps; with them velocities, forces and observables
    (energies, temperature, pressure, …) unless these have a cadence of their own. Of velocities and
    forces 0 means never. Restart files lie beside the trajectory and bear its name.
    """

    trajectory: str
    trajectory_every: int = bounded(10, at_least=1, at_most=MOST_STEPS)
    velocities_every: int | None = bounded(None, at_least=0, at_most=MOST_STEPS)
    forces_every: int | None = bounded(None, at_least=0, at_most=MOST_STEPS)
    observables_every: int | None = bounded(None, at_least=1, at_most=MOST_STEPS)
    thermo_every: int = bounded(50, at_least=1, at_most=MOST_STEPS)
    restart_every: int = bounded(500, at_least=1, at_most=MOST_STEPS)
    position_dtype: Literal["f4", "f8"] = "f4"
    force_unit: Literal["kJ mol-1 Angstrom-1", "eV Angstrom-1"] = "kJ mol-1 Angstrom-1"
    compression: Literal["gzip"] | None = None


@dataclass(frozen=True)
class GuardsTable(Limits):
    """``[guards]``: where a run stops because its state is no longer physical.

    Jumps are those of one step: of the kinetic temperature, and of the conserved energy by atom.
    """

    min_distance_A: float = bounded(0.4, at_least=0.0, at_most=10.0)
    max_temperature_K: float = bounded(Limits.max_temperature_K, above=0.0, at_most=1e12)
    max_temperature_jump_K: float = bounded(Limits.max_temperature_jump_K, above=0.0, at_most=1e12)
    max_energy_jump_eV: float = bounded(Limits.max_energy_jump_eV, above=0.0, at_most=1e12)


@dataclass(frozen=True)
class RunConfig:
    """What ``md-gie run`` does.

    Parameters
    ----------
    path : Path
        Where the configuration was read from; files that it names are relative to its folder.
    model, structure, neighbors, md, output, guards
        One dataclass for each table.
    """

    path: Path
    model: ModelTable
    structure: StructureTable
    neighbors: NeighborsTable
    md: MDTable
    output: OutputTable
    guards: GuardsTable

    @classmethod
    def load(cls, path: str | Path) -> "RunConfig":
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
        check_ensemble(config.md, path)
        config._check_outputs()
        return config

    def with_overrides(self, *, n_steps: int | None, device: str | None) -> "RunConfig":
        """Return the configuration with what the command line sets.

        Raises
        ------
        ConfigError
            The number of steps is out of range.
        """
        md, model = self.md, self.model
        if n_steps is not None:
            limits = MDTable.__dataclass_fields__["n_steps"].metadata
            check_range(n_steps, limits, "number of steps")
            md = dataclasses.replace(md, n_steps=n_steps)
        if device is not None:
            model = dataclasses.replace(model, device=device)
        return dataclasses.replace(self, md=md, model=model)

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
    def trajectory_file(self) -> Path:
        """The trajectory."""
        return Path(self.output.trajectory)

    @property
    def failed_frame_file(self) -> Path:
        """Where the state goes that a run stops at because it is no longer physical."""
        path = self.trajectory_file
        return path.with_name(f"{path.stem}.failed{path.suffix}")

    def to_json(self) -> str:
        """Return every setting, defaults and overrides included."""
        return json.dumps(dataclasses.asdict(self), default=str)

    def _check_outputs(self) -> None:
        text, path = self.output.trajectory, self.trajectory_file
        where = f"{self.path}, [output] trajectory"
        if not path.name or path.name == ".." or text.endswith(("/", os.sep)) or path.is_dir():
            raise ConfigError(f'{where}: "{text}" is a folder or no name; name a file')
        if path.exists() and not path.is_file():
            raise ConfigError(f'{where}: "{text}" is not an ordinary file; name another')
        inputs = (self.path, self.structure_file, self.path.parent / self.model.name)
        outputs = (path, self.failed_frame_file, *RestartFiles(path).paths)
        for source in inputs:
            if any(_same_file(source, output) for output in outputs):
                raise ConfigError(
                    f'{where}: with "{text}" the run would write over its own input {source}; '
                    "name another file"
                )


def _same_file(first: Path, second: Path) -> bool:
    if first.exists() and second.exists():
        return first.samefile(second)
    return first.resolve() == second.resolve()


_TABLES: dict[str, type] = {
    "model": ModelTable,
    "structure": StructureTable,
    "neighbors": NeighborsTable,
    "md": MDTable,
    "output": OutputTable,
    "guards": GuardsTable,
}
