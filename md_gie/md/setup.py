"""What a configuration stands for: engine, forces, integrator and first velocities."""

import dataclasses
import hashlib
from typing import Any, NamedTuple

import torch
from torch import Tensor

from md_gie.engine.base import Engine
from md_gie.errors import ConfigError, MDGIEError
from md_gie.md.config import RunConfig
from md_gie.md.ensembles import MDTable
from md_gie.md.forces import GuardedForces
from md_gie.md.freedom import Freedom
from md_gie.md.integrators import (
    BussiVerlet,
    Coupling,
    Integrator,
    LangevinBAOAB,
    NoseHooverChains,
    StochasticCellRescaling,
    VelocityVerlet,
)
from md_gie.md.observers import Meter
from md_gie.md.start import Start, choose_start
from md_gie.md.state import MDState
from md_gie.md.timing import Clock
from md_gie.neighbors import NeighborCache
from md_gie.structure import Structure, read_structure

_CHAIN_LENGTH = 3
_COUPLINGS: dict[str, Coupling] = {
    "npt-isotropic": "isotropic",
    "npt-anisotropic": "anisotropic",
    "npt-full-cell": "full-cell",
}


class RunParts(NamedTuple):
    """The parts of a run, before its first step."""

    structure: Structure
    engine: Engine
    model_hash: str
    forces: GuardedForces
    integrator: Integrator
    meter: Meter
    clock: Clock
    start: Start
    modes: str


def build_parts(config: RunConfig) -> RunParts:
    """Read the structure, load the model and make the rest.

    Raises
    ------
    FileNotFoundError, StructureError, CheckpointError, ConfigError
        A file is missing or damaged, an element is unknown to the model, or a setting impossible.
    """
    structure = read_structure(config.structure_file)
    x, y, z = (bool(periodic) for periodic in structure.pbc)
    if config.md.changes_cell and not (x and y and z):
        raise ConfigError(
            f'{config.path}, [md] ensemble: "{config.md.ensemble}" needs a structure that is '
            f"periodic along all three vectors, and {config.structure_file} is not; choose an "
            "ensemble at constant volume"
        )
    start = choose_start(config, structure)
    engine, model_hash = _load_engine(config)
    types = engine.types_of([int(number) for number in structure.numbers])
    clock = Clock(engine.device)
    cache = NeighborCache(engine.cutoff, config.neighbors.skin_A, device=engine.device)
    forces = GuardedForces(engine, cache, types, (x, y, z), config.guards, clock)
    integrator = make_integrator(config.md, _on_device(start.freedom, engine.device))
    meter = Meter(integrator.freedom, integrator.timestep_fs, forces, periodic=x and y and z)
    model = config.model
    modes = f"kernels {model.kernels}, compile {model.compile}, tf32 {model.tf32}".lower()
    return RunParts(structure, engine, model_hash, forces, integrator, meter, clock, start, modes)


def make_integrator(md: MDTable, freedom: Freedom) -> Integrator:
    """Return the integrator of an ensemble; the configuration has been checked."""
    timestep, temperature = md.timestep_fs, md.temperature
    if md.ensemble == "nve":
        return VelocityVerlet(timestep, freedom)
    assert temperature is not None
    if md.ensemble == "nvt-langevin":
        assert md.friction_per_ps is not None
        return LangevinBAOAB(timestep, temperature, md.friction_per_ps, md.seed, freedom)
    assert md.thermostat_fs is not None
    if md.ensemble == "nvt-bussi":
        return BussiVerlet(timestep, temperature, md.thermostat_fs, md.seed, freedom)
    if md.ensemble == "nvt-nose-hoover":
        length = md.chain_length or _CHAIN_LENGTH
        return NoseHooverChains(timestep, temperature, md.thermostat_fs, length, freedom)
    assert md.pressure is not None
    assert md.barostat_fs is not None
    assert md.compressibility_per_GPa is not None
    return StochasticCellRescaling(
        timestep,
        temperature,
        md.pressure,
        thermostat_fs=md.thermostat_fs,
        barostat_fs=md.barostat_fs,
        compressibility_per_GPa=md.compressibility_per_GPa,
        coupling=_COUPLINGS[md.ensemble],
        seed=md.seed,
        freedom=freedom,
    )


def first_state(parts: RunParts) -> MDState:
    """Evaluate the starting structure, with its velocities or drawn ones."""
    structure = parts.structure

    def on_device(array: Any) -> Tensor:
        return torch.as_tensor(array, dtype=torch.float64).clone().to(parts.engine.device)

    state = MDState.start(
        on_device(structure.positions),
        on_device(parts.start.velocities),
        on_device(structure.masses),
        on_device(structure.cell),
        parts.forces,
    )
    return parts.integrator.start(state)


def _on_device(freedom: Freedom, device: torch.device) -> Freedom:
    if freedom.movable is None:
        return freedom
    return dataclasses.replace(freedom, movable=freedom.movable.to(device))


def _load_engine(config: RunConfig) -> tuple[Engine, str]:
    # Here, so that integrators and configurations can be used without any model.
    from md_gie.engine import load_potential, resolve_model

    model = config.model
    try:
        engine: Engine = load_potential(
            config.model_source,
            device=model.device,
            dtype=model.dtype,
            kernels=model.kernels,
            compile=model.compile,
            tf32=model.tf32,
            branch=model.branch,
        )
    except MDGIEError:
        raise
    except ValueError as error:
        raise ConfigError(f"{config.path}, [model]: {error}", path=config.path) from error
    content = resolve_model(config.model_source).read_bytes()
    return engine, hashlib.sha256(content).hexdigest()
