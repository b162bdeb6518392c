"""What a configuration stands for: engine, forces, integrator and first velocities."""

import hashlib
from typing import Any, NamedTuple

import torch
from torch import Tensor

from md_gie.engine.base import Engine
from md_gie.errors import ConfigError, MDGIEError
from md_gie.md.config import MDTable, RunConfig
from md_gie.md.forces import GuardedForces
from md_gie.md.integrators import Integrator, LangevinBAOAB, VelocityVerlet
from md_gie.md.observers import Meter
from md_gie.md.state import MDState, maxwell_boltzmann
from md_gie.md.timing import Clock
from md_gie.neighbors import NeighborCache
from md_gie.structure import Structure, read_structure


class RunParts(NamedTuple):
    """The parts of a run, before its first step."""

    structure: Structure
    engine: Engine
    model_hash: str
    forces: GuardedForces
    integrator: Integrator
    meter: Meter
    clock: Clock


def build_parts(config: RunConfig) -> RunParts:
    """Read the structure, load the model and make the rest.

    Raises
    ------
    FileNotFoundError, StructureError, CheckpointError, ConfigError
        A file is missing or damaged, an element is unknown to the model, or a setting impossible.
    """
    structure = read_structure(config.structure_file)
    if config.md.temperature_K is None and structure.velocities is None:
        raise ConfigError(
            f"{config.path}, [md] temperature_K: missing; {config.structure_file} has no "
            "velocities, so a temperature is needed to draw them"
        )
    engine, model_hash = _load_engine(config)
    types = engine.types_of([int(number) for number in structure.numbers])
    clock = Clock(engine.device)
    cache = NeighborCache(engine.cutoff, config.neighbors.skin_A, device=engine.device)
    x, y, z = (bool(periodic) for periodic in structure.pbc)
    forces = GuardedForces(engine, cache, types, (x, y, z), config.guards, clock)
    integrator = make_integrator(config.md)
    meter = Meter(
        integrator.degrees_of_freedom(len(structure)),
        integrator.timestep_fs,
        periodic=x and y and z,
    )
    return RunParts(structure, engine, model_hash, forces, integrator, meter, clock)


def make_integrator(md: MDTable) -> Integrator:
    """Return the integrator of an ensemble; the configuration has been checked."""
    if md.ensemble == "nve":
        return VelocityVerlet(md.timestep_fs)
    assert md.temperature_K is not None
    assert md.friction_per_ps is not None
    return LangevinBAOAB(md.timestep_fs, md.temperature_K, md.friction_per_ps, md.seed)


def first_state(parts: RunParts, md: MDTable) -> MDState:
    """Evaluate the starting structure, with its velocities or drawn ones."""
    structure = parts.structure

    def on_device(array: Any) -> Tensor:
        return torch.tensor(array, dtype=torch.float64, device=parts.engine.device)

    masses = on_device(structure.masses)
    if structure.velocities is not None:
        velocities = on_device(structure.velocities)
    else:
        assert md.temperature_K is not None
        velocities = maxwell_boltzmann(masses, md.temperature_K, md.seed)
    return MDState.start(
        on_device(structure.positions), velocities, masses, on_device(structure.cell), parts.forces
    )


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
            branch=model.branch,
        )
    except MDGIEError:
        raise
    except ValueError as error:
        raise ConfigError(f"{config.path}, [model]: {error}", path=config.path) from error
    content = resolve_model(config.model_source).read_bytes()
    return engine, hashlib.sha256(content).hexdigest()
