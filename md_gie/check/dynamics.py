"""Short runs at constant energy: what is conserved, and that every route goes the same way."""

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from ase.md.verlet import VelocityVerlet as ASEVelocityVerlet
from ase.units import fs

from md_gie.calculators.ase_calculator import GIECalculator
from md_gie.check.subject import Floats, Subject
from md_gie.check.table import Row
from md_gie.engine import Engine, Evaluation
from md_gie.md import Freedom, MDState, VelocityVerlet, maxwell_boltzmann
from md_gie.neighbors import NeighborCache
from md_gie.units import AMU_A2_FS2_EV

_SKIN_A = 0.5
_MOST_STEPS = 200
_LEAST_STEPS = 12
_SECONDS = 5.0
_CHANGE_MEV = 1.0  # by atom, over the run
_LEAST_RATIO = 2.5  # 4 is what a halved timestep makes of an error of second order
_NOISE_MEV = 1e-6  # by atom; below it there is no error to compare
_N_SAME = 4
_SAME_A = 1e-8


class _Path(NamedTuple):
    """Total energies (S+1,) in eV of a run, and where it ended."""

    energies: Floats
    positions: Floats


def check_dynamics(subject: Subject, *, timestep_fs: float, temperature_K: float) -> Iterator[Row]:
    """Run at constant energy from the structure's own velocities, or from drawn ones."""
    velocities = _velocities(subject, temperature_K)
    steps = _affordable_steps(subject, velocities, timestep_fs)
    n_atoms = len(subject.structure)
    own = _run(subject, subject.engine, velocities, timestep_fs, steps)
    change = 1000 * float(np.abs(own.energies - own.energies[0]).max()) / n_atoms
    what = f"{steps} steps of {timestep_fs:g} fs, largest change "
    yield Row.within("dynamics conserves energy", change, _CHANGE_MEV, "meV/atom", what)

    steps = max(_LEAST_STEPS // 2, steps // 4)
    errors = []
    for halvings in (0, 1):
        path = _run(
            subject,
            subject.precise,
            velocities,
            timestep_fs / 2**halvings,
            steps * 2**halvings,
        )
        energies = path.energies[:: 2**halvings]
        errors.append(1000 * float(np.abs(energies - energies[0]).max()) / n_atoms)
    name = "the error falls with the square of the timestep"
    if errors[0] < _NOISE_MEV:
        yield Row.skipped(name, f"the error, {errors[0]:.1g} meV/atom, is rounding")
    else:
        ratio = errors[0] / errors[1] if errors[1] > 0 else float("inf")
        text = f"{errors[0]:.2g} meV/atom, {ratio:.2f} times that of half the timestep, at least "
        yield Row(name, ratio >= _LEAST_RATIO, f"{text}{_LEAST_RATIO:g} needed")

    here = _run(subject, subject.precise, velocities, timestep_fs, _N_SAME).positions
    there = _run_in_ase(subject, velocities, timestep_fs)
    worst = float(np.abs(here - there).max())
    what = f"{_N_SAME} steps, positions differ by "
    yield Row.within("ASE and md-gie run go the same way", worst, _SAME_A, "Å", what)


def _velocities(subject: Subject, temperature_K: float) -> Floats:
    structure = subject.structure
    if structure.velocities is not None and structure.velocities.any():
        return structure.velocities
    drawn: Floats = maxwell_boltzmann(torch.tensor(structure.masses), temperature_K, 1).numpy()
    return drawn


def _affordable_steps(subject: Subject, velocities: Floats, timestep_fs: float) -> int:
    _run(subject, subject.engine, velocities, timestep_fs, 1)
    start = time.perf_counter()
    _run(subject, subject.engine, velocities, timestep_fs, 4)
    each = (time.perf_counter() - start) / 5
    return int(np.clip(_SECONDS / each, _LEAST_STEPS, _MOST_STEPS))


def _run(
    subject: Subject, engine: Engine, velocities: Floats, timestep_fs: float, steps: int
) -> _Path:
    structure = subject.structure
    cache = NeighborCache(engine.cutoff, _SKIN_A, device=engine.device)
    types = engine.types_of(structure.numbers.tolist())

    def forces(positions: torch.Tensor, cell: torch.Tensor) -> Evaluation:
        return engine.evaluate(types, cache.update(positions, cell, structure.pbc))

    def on_device(array: Floats) -> torch.Tensor:
        return torch.tensor(array, dtype=torch.float64, device=engine.device)

    integrator = VelocityVerlet(timestep_fs, Freedom.of(len(structure), conserves_momentum=True))
    state = MDState.start(
        on_device(structure.positions),
        on_device(velocities),
        on_device(structure.masses),
        on_device(structure.cell),
        forces,
    )
    energies = [_total(state)]
    for _ in range(steps):
        state = integrator.step(state, forces)
        energies.append(_total(state))
    return _Path(np.array(energies), state.positions.cpu().numpy())


def _total(state: MDState) -> float:
    kinetic = 0.5 * AMU_A2_FS2_EV * (state.masses[:, None] * state.velocities.square()).sum()
    return float(state.energy + kinetic)


def _run_in_ase(subject: Subject, velocities: Floats, timestep_fs: float) -> Floats:
    atoms = subject.structure.to_ase()
    # The route of md-gie run has its own constants; ASE's unit of time hangs on ASE's.
    atoms.set_velocities(velocities / fs)
    settings = {**subject.settings, "dtype": "float64"}
    atoms.calc = GIECalculator(subject.model, skin=_SKIN_A, **settings)
    with ASEVelocityVerlet(atoms, timestep_fs * fs) as dynamics:
        dynamics.run(_N_SAME)
    positions: Floats = atoms.positions.copy()
    return positions
