"""Integrators: order, conservation, sampling, and starting velocities."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from md_gie.engine.base import Evaluation
from md_gie.md.integrators import LangevinBAOAB, VelocityVerlet
from md_gie.md.state import (
    MDState,
    kinetic_energy,
    kinetic_temperature,
    maxwell_boltzmann,
    pressure,
    virial_stress,
)
from md_gie.units import AMU_A2_FS2_EV, BOLTZMANN_EV_K

STIFFNESS = 1.0  # eV/Å²


def springs(positions: Tensor, cell: Tensor) -> Evaluation:
    """Every atom on a spring of its own to the origin."""
    forces = -STIFFNESS * positions
    energies = 0.5 * STIFFNESS * positions.square().sum(1)
    return Evaluation(energies.sum(), forces, forces.T @ positions, energies)


def total(state: MDState) -> float:
    return float(state.energy + kinetic_energy(state) + state.bath_energy)


def oscillators(n_atoms: int, temperature_K: float) -> MDState:
    """Atoms drawn from the canonical ensemble of their springs."""
    masses = torch.linspace(1.0, 20.0, n_atoms, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    spread = (BOLTZMANN_EV_K * temperature_K / STIFFNESS) ** 0.5
    positions = spread * torch.randn(n_atoms, 3, generator=generator, dtype=torch.float64)
    velocities = maxwell_boltzmann(masses, temperature_K, seed=1)
    return MDState.start(positions, velocities, masses, torch.eye(3).double(), springs)


def test_verlet_follows_a_harmonic_oscillator() -> None:
    mass = torch.tensor([10.0], dtype=torch.float64)
    positions = torch.tensor([[0.1, 0.0, 0.0]], dtype=torch.float64)
    state = MDState.start(positions, torch.zeros_like(positions), mass, torch.eye(3), springs)
    frequency = (STIFFNESS / (10.0 * AMU_A2_FS2_EV)) ** 0.5
    timestep = 0.01 / frequency
    integrator = VelocityVerlet(timestep)
    for _ in range(200):
        state = integrator.step(state, springs)
    # Verlet's own frequency is higher by (omega dt)²/24, a phase of 8e-6 after two radians.
    assert state.positions[0, 0].item() == pytest.approx(0.1 * np.cos(2.0), abs=2e-6)
    assert state.velocities[0, 0].item() == pytest.approx(-0.1 * frequency * np.sin(2.0), rel=2e-5)


def test_verlet_energy_error_is_of_second_order(make_forces: Callable, start: Callable) -> None:
    errors = []
    for timestep in (8.0, 4.0):
        forces = make_forces()
        state = start(forces, 80.0)
        integrator = VelocityVerlet(timestep)
        energies = []
        for _ in range(int(1600 / timestep)):
            state = integrator.step(state, forces)
            energies.append(total(state))
        errors.append(np.std(energies))
    assert errors[1] > 0
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.15)


def test_verlet_conserves_momentum_and_goes_back_in_time(
    make_forces: Callable, start: Callable
) -> None:
    forces = make_forces()
    first = state = start(forces, 80.0)
    integrator = VelocityVerlet(4.0)
    for _ in range(100):
        state = integrator.step(state, forces)
    momentum = (state.masses[:, None] * state.velocities).sum(0)
    assert momentum.abs().max() < 1e-12
    state = state._replace(velocities=-state.velocities)
    for _ in range(100):
        state = integrator.step(state, forces)
    torch.testing.assert_close(state.positions, first.positions, rtol=0, atol=1e-9)


def test_steps_change_nothing_in_place(make_forces: Callable, start: Callable) -> None:
    forces = make_forces()
    state = start(forces, 80.0)
    before = [value.clone() if isinstance(value, Tensor) else value for value in state]
    for integrator in (VelocityVerlet(4.0), LangevinBAOAB(4.0, 80.0, 5.0, seed=0)):
        first, second = integrator.step(state, forces), integrator.step(state, forces)
        for a, b in zip(first, second, strict=True):
            assert a == b if isinstance(a, int) else torch.equal(a, b)
    for a, b in zip(state, before, strict=True):
        assert a == b if isinstance(a, int) else torch.equal(a, b)


@pytest.mark.parametrize("friction_per_ps", [2.0, 50.0])
def test_langevin_samples_the_canonical_ensemble(friction_per_ps: float) -> None:
    temperature, n_atoms, timestep = 300.0, 1000, 5.0
    state = oscillators(n_atoms, temperature)
    integrator = LangevinBAOAB(timestep, temperature, friction_per_ps, seed=11)
    kinetic, potential = [], []
    for step in range(2000):
        state = integrator.step(state, springs)
        if step % 50 == 49:
            kinetic.append(kinetic_temperature(state, 3 * n_atoms).item())
            potential.append(2 * state.energy.item() / (3 * n_atoms * BOLTZMANN_EV_K))
    # A sample deviates by sqrt(2 / 3000) of the temperature. At the lower friction, energies
    # 0.25 ps apart are correlated by exp(-0.5): 40 samples count as 10 independent ones.
    deviation = (2 / (3 * n_atoms)) ** 0.5 * temperature
    error = deviation / 10**0.5
    # In a harmonic well BAOAB has positions without bias and velocities colder by (omega dt)²/4:
    # Leimkuhler and Matthews, J. Chem. Phys. 138, 174102 (2013), doi:10.1063/1.4802990.
    assert abs(np.mean(potential) - temperature) < 4 * error
    squares = STIFFNESS / (AMU_A2_FS2_EV * state.masses) * timestep**2
    assert abs(np.mean(kinetic) / (1 - squares.mean().item() / 4) - temperature) < 4 * error
    # Ten samples know their deviation to about a quarter.
    assert 0.4 * deviation < np.std(potential) < 1.6 * deviation


def test_langevin_thermostat_heats_and_cools(make_forces: Callable, start: Callable) -> None:
    for first, target in ((0.0, 60.0), (120.0, 60.0)):
        forces = make_forces()
        state = start(forces, first)
        integrator = LangevinBAOAB(4.0, target, 20.0, seed=2)
        samples = []
        begin = total(state)
        for step in range(600):
            state = integrator.step(state, forces)
            if step >= 200:
                samples.append(kinetic_temperature(state, 96).item())
        # 96 degrees of freedom deviate by 8.7 K; 1.6 ps hold more than 16 independent samples.
        assert np.mean(samples) == pytest.approx(target, abs=4 * 8.7 / 4)
        assert abs(total(state) - begin) < 0.01 * abs(float(state.bath_energy))


def test_langevin_without_friction_is_verlet(make_forces: Callable, start: Callable) -> None:
    forces = make_forces()
    a = b = start(forces, 80.0)
    langevin, verlet = LangevinBAOAB(4.0, 300.0, 0.0, seed=0), VelocityVerlet(4.0)
    for _ in range(20):
        a, b = langevin.step(a, forces), verlet.step(b, forces)
    torch.testing.assert_close(a.positions, b.positions, rtol=0, atol=1e-11)
    assert a.bath_energy == 0


def test_first_velocities() -> None:
    masses = torch.tensor([1.0, 16.0] * 2000, dtype=torch.float64)
    velocities = maxwell_boltzmann(masses, 330.0, seed=4)
    assert (masses[:, None] * velocities).sum(0).abs().max() < 1e-12
    state = MDState.start(velocities, velocities, masses, torch.eye(3), springs)
    deviation = 330.0 * (2 / 12000) ** 0.5
    assert kinetic_temperature(state, 11997).item() == pytest.approx(330.0, abs=4 * deviation)
    light, heavy = velocities[::2].square().mean(), velocities[1::2].square().mean()
    assert (light / heavy).item() == pytest.approx(16.0, rel=4 * (4 / 6000) ** 0.5)
    assert torch.equal(velocities, maxwell_boltzmann(masses, 330.0, seed=4))
    assert not torch.equal(velocities, maxwell_boltzmann(masses, 330.0, seed=5))
    assert maxwell_boltzmann(masses[:1], 330.0, seed=4).abs().min() > 0


def test_drift_of_the_centre_of_mass_is_no_heat() -> None:
    masses = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)
    velocities = maxwell_boltzmann(masses, 330.0, seed=4)
    states = [
        MDState.start(velocities, v, masses, torch.eye(3), springs)
        for v in (velocities, velocities + torch.tensor([0.01, 0.0, -0.02]).double())
    ]
    still, moving = (kinetic_temperature(state, 6).item() for state in states)
    assert moving == pytest.approx(still, rel=1e-12)
    assert VelocityVerlet(1.0).degrees_of_freedom(3) == 6
    assert VelocityVerlet(1.0).degrees_of_freedom(1) == 3
    assert LangevinBAOAB(1.0, 300.0, 1.0, 0).degrees_of_freedom(3) == 9


def test_pressure_is_the_volume_derivative(make_forces: Callable, start: Callable) -> None:
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
    ideal = 2 * kinetic_energy(hot).item() / (3 * volume)
    assert pressure(hot).item() == pytest.approx(numeric + ideal, rel=1e-6)
