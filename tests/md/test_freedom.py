"""Degrees of freedom, first velocities, and what of them is no heat."""

from collections.abc import Callable

import pytest
import torch

from md_gie.md.freedom import Freedom, count_rotations, maxwell_boltzmann, without_rotation
from md_gie.md.integrators.base import Evaluate
from md_gie.md.state import (
    MDState,
    kinetic_temperature,
    pressure,
    virial_stress,
)
from md_gie.units import BOLTZMANN_EV_K


def resting(n_atoms: int) -> MDState:
    nothing = torch.zeros(n_atoms, 3, dtype=torch.float64)
    masses = torch.linspace(1.0, 7.0, n_atoms, dtype=torch.float64)
    zero, eye = nothing.sum(), torch.eye(3, dtype=torch.float64)
    return MDState(0, nothing, nothing, masses, eye, zero, nothing, 0 * eye, zero, zero[None][:0])


def test_counts() -> None:
    frozen = torch.tensor([True, False, False, False])
    assert Freedom.of(4, conserves_momentum=True).count == 9
    assert Freedom.of(4, conserves_momentum=False).count == 12
    assert Freedom.of(4, conserves_momentum=True, frozen=frozen).count == 9
    assert not Freedom.of(4, conserves_momentum=True, frozen=frozen).fixed_center
    assert Freedom.of(4, conserves_momentum=True, frozen=frozen & False).fixed_center
    assert Freedom.of(3, conserves_momentum=True, n_rotations=3).count == 3
    # A single atom keeps the motion that it has.
    one = Freedom.of(1, conserves_momentum=True)
    assert (one.count, one.fixed_center) == (3, False)


def test_first_velocities() -> None:
    masses = torch.tensor([1.0, 16.0] * 2000, dtype=torch.float64)
    velocities = maxwell_boltzmann(masses, 330.0, seed=4)
    assert (masses[:, None] * velocities).sum(0).abs().max() < 1e-12
    state = resting(4000)._replace(velocities=velocities, masses=masses)
    deviation = 330.0 * (2 / 12000) ** 0.5
    free = Freedom.of(4000, conserves_momentum=True)
    assert kinetic_temperature(state, free).item() == pytest.approx(330.0, abs=4 * deviation)
    light, heavy = velocities[::2].square().mean(), velocities[1::2].square().mean()
    assert (light / heavy).item() == pytest.approx(16.0, rel=4 * (4 / 6000) ** 0.5)
    assert torch.equal(velocities, maxwell_boltzmann(masses, 330.0, seed=4))
    assert not torch.equal(velocities, maxwell_boltzmann(masses, 330.0, seed=5))
    assert maxwell_boltzmann(masses[:1], 330.0, seed=4).abs().min() > 0
    frozen = torch.arange(4000) < 5
    some = maxwell_boltzmann(masses, 330.0, seed=4, frozen=frozen)
    assert not some[:5].any()
    assert some[5:].abs().min() > 0


def test_drift_of_the_centre_of_mass_is_no_heat() -> None:
    state = resting(3)
    velocities = maxwell_boltzmann(state.masses, 330.0, seed=4)
    moving = velocities + torch.tensor([0.01, 0.0, -0.02]).double()
    free = Freedom.of(3, conserves_momentum=True)
    temperatures = [
        kinetic_temperature(state._replace(velocities=v), free).item() for v in (velocities, moving)
    ]
    assert temperatures[1] == pytest.approx(temperatures[0], rel=1e-12)
    langevin = Freedom.of(3, conserves_momentum=False)
    heat = kinetic_temperature(state._replace(velocities=moving), langevin).item()
    assert heat > temperatures[0]


@pytest.mark.parametrize(
    ("rows", "n_rotations"),
    [
        ([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]], 3),
        ([[0.0, 0, 0], [1, 1, 1], [2, 2, 2]], 2),
        ([[3.0, 0, 0], [0, 0, 1]], 2),
        ([[5.0, 1, 0]], 0),
    ],
)
def test_rotations_of_molecules(rows: list[list[float]], n_rotations: int) -> None:
    positions = torch.tensor(rows, dtype=torch.float64) + 7.0
    masses = torch.arange(1, len(rows) + 1, dtype=torch.float64)
    assert count_rotations(positions, masses) == n_rotations
    velocities = maxwell_boltzmann(masses, 300.0, seed=1)
    calm = without_rotation(positions, velocities, masses)
    arms = positions - (masses[:, None] * positions).sum(0) / masses.sum()
    momentum = torch.linalg.cross(arms, masses[:, None] * calm).sum(0)
    assert momentum.abs().max() < 1e-14
    # What was taken away is a rigid rotation: distances do not feel it.
    taken = velocities - calm
    apart, relative = arms[:, None] - arms, taken[:, None] - taken
    assert (apart * relative).sum(-1).abs().max() < 1e-14
    if n_rotations:
        assert taken.abs().max() > 1e-4


def test_temperature_without_rotation_is_right_on_average() -> None:
    positions = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 2]], dtype=torch.float64)
    state = resting(4)
    free = Freedom.of(4, conserves_momentum=True, n_rotations=3)
    found = []
    for seed in range(600):
        velocities = maxwell_boltzmann(state.masses, 300.0, seed)
        velocities = without_rotation(positions, velocities, state.masses)
        found.append(kinetic_temperature(state._replace(velocities=velocities), free).item())
    error = 300.0 * (2 / free.count / 600) ** 0.5
    assert sum(found) / 600 == pytest.approx(300.0, abs=4 * error)


def test_pressure_is_the_volume_derivative(
    make_forces: Callable[..., Evaluate], start: Callable[..., MDState]
) -> None:
    forces = make_forces()
    state = start(forces, 0.0)
    step = 1e-5
    energies = [
        float(forces(state.positions * s, state.cell * s).energy) for s in (1 - step, 1 + step)
    ]
    volume = 10.8**3
    numeric = -(energies[1] - energies[0]) / (volume * ((1 + step) ** 3 - (1 - step) ** 3))
    assert pressure(state).item() == pytest.approx(numeric, rel=1e-6)
    assert -virial_stress(state).trace().item() / 3 == pytest.approx(numeric, rel=1e-6)
    hot = start(forces, 100.0)
    free = Freedom.of(32, conserves_momentum=True)
    temperature = kinetic_temperature(hot, free).item()
    ideal = free.count / 3 * BOLTZMANN_EV_K * temperature / volume
    assert pressure(hot).item() == pytest.approx(numeric + ideal, rel=1e-6)
