"""First velocities of a run, and the degrees of freedom that go with them."""

from typing import NamedTuple

import torch
from torch import Tensor

from md_gie.errors import ConfigError
from md_gie.md.config import RunConfig
from md_gie.md.freedom import (
    Freedom,
    center_velocity,
    count_rotations,
    maxwell_boltzmann,
    without_rotation,
)
from md_gie.md.state import kinetic_energy_of
from md_gie.structure import Structure

# Of the kinetic energy; below it a given motion of the whole is rounding.
_NOTHING = 1e-10


class Start(NamedTuple):
    """Velocities to begin with, (N, 3) float64 on the CPU; and what was done to given ones."""

    velocities: Tensor
    freedom: Freedom
    notes: tuple[str, ...] = ()


def choose_start(config: RunConfig, structure: Structure) -> Start:
    """Take the structure's velocities, or draw them, and count the degrees of freedom.

    A system without periodic axes and frozen atoms whose momentum is conserved is a free body: it
    gets no rotation, or keeps the one that it was given.

    Raises
    ------
    ConfigError
        No temperature to draw from; every atom frozen, or some under a barostat; or atoms at rest
        under a thermostat that scales velocities.
    """
    md = config.md
    frozen = _frozen(config, structure)
    whole = md.conserves_momentum and not bool(frozen.any()) and len(structure) > 1
    free = whole and not structure.pbc.any()
    if structure.velocities is None:
        start = _draw(config, structure, frozen, free=free)
    else:
        start = _take(config, structure, frozen, whole=whole, free=free)
    scaled = md.ensemble == "nvt-bussi" or md.changes_cell
    if scaled and not bool((start.velocities != 0).any()):
        raise ConfigError(
            f'{config.path}, [md] ensemble: "{md.ensemble}" scales velocities and all atoms are at '
            "rest; begin above 0 K, or with velocities in the structure"
        )
    return start


def _frozen(config: RunConfig, structure: Structure) -> Tensor:
    md = config.md
    frozen = torch.tensor(structure.frozen)
    frozen[md.frozen_indices(len(structure), config.path)] = True
    source = f"{config.structure_file} has frozen atoms"
    if bool(frozen.all()):
        raise ConfigError(
            f"{config.path}, [md] frozen_atoms: all {len(structure)} atoms are frozen; leave one "
            "that moves"
        )
    if bool(frozen.any()) and md.changes_cell:
        raise ConfigError(
            f'{config.path}, [md] ensemble: {source}, and "{md.ensemble}" moves all atoms with the '
            "cell; free them, or choose an ensemble at constant volume"
        )
    if bool(frozen.any()) and md.fix_center_of_mass:
        raise ConfigError(
            f"{config.path}, [md] fix_center_of_mass: {source}, which hold the system already; "
            "remove the key, or free them"
        )
    return frozen


def _draw(config: RunConfig, structure: Structure, frozen: Tensor, *, free: bool) -> Start:
    md = config.md
    if md.temperature is None:
        raise ConfigError(
            f"{config.path}, [md] temperature_K: missing; {config.structure_file} has no "
            "velocities, so a temperature is needed to draw them"
        )
    masses, positions = torch.tensor(structure.masses), torch.tensor(structure.positions)
    velocities = maxwell_boltzmann(masses, md.temperature.first, md.seed, frozen)
    n_rotations = 0
    if free:
        velocities = without_rotation(positions, velocities, masses)
        n_rotations = count_rotations(positions, masses)
    return Start(velocities, _freedom(config, frozen, n_rotations))


def _take(
    config: RunConfig, structure: Structure, frozen: Tensor, *, whole: bool, free: bool
) -> Start:
    masses, positions = torch.tensor(structure.masses), torch.tensor(structure.positions)
    velocities, notes = torch.tensor(structure.velocities), []
    if bool((velocities[frozen] != 0).any()):
        velocities[frozen] = 0.0
        notes.append("frozen atoms had velocities, which are left out")
    total = kinetic_energy_of(velocities, masses)
    if whole and config.md.ensemble != "nve":
        rest = velocities - center_velocity(velocities, masses)
        if kinetic_energy_of(rest, masses) < (1.0 - _NOTHING) * total:
            notes.append(
                f"the centre of mass moved, which {config.md.ensemble} would take for heat; its "
                "velocity is left out"
            )
        velocities = rest
    n_rotations = 0
    if free:
        turning = velocities - without_rotation(positions, velocities, masses)
        if kinetic_energy_of(turning, masses) <= _NOTHING * total:
            n_rotations = count_rotations(positions, masses)
    return Start(velocities, _freedom(config, frozen, n_rotations), tuple(notes))


def _freedom(config: RunConfig, frozen: Tensor, n_rotations: int) -> Freedom:
    return Freedom.of(
        len(frozen),
        conserves_momentum=config.md.conserves_momentum,
        frozen=frozen,
        n_rotations=n_rotations,
    )
