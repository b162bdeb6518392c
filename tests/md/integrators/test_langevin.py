"""Langevin dynamics: sampling, bookkeeping of the bath, and a centre of mass at rest."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats

from md_gie.md import LangevinBAOAB, Schedule, VelocityVerlet
from md_gie.md.state import conserved_energy, kinetic_energy, kinetic_temperature
from md_gie.units import AMU_A2_FS2_EV, BOLTZMANN_EV_K


@pytest.mark.parametrize("friction_per_ps", [2.0, 50.0])
def test_samples_the_canonical_ensemble(
    friction_per_ps: float, springs: Callable, oscillators: Callable, freedom: Callable
) -> None:
    temperature, n_atoms, timestep = 300.0, 1000, 5.0
    state = oscillators(n_atoms, temperature)
    free = freedom(n_atoms, conserves_momentum=False)
    integrator = LangevinBAOAB(timestep, temperature, friction_per_ps, 11, free)
    kinetic, potential = [], []
    for step in range(2000):
        state = integrator.step(state, springs)
        if step % 50 == 49:
            kinetic.append(kinetic_temperature(state, free).item())
            potential.append(2 * state.energy.item() / (3 * n_atoms * BOLTZMANN_EV_K))
    # A sample deviates by sqrt(2 / 3000) of the temperature. At the lower friction, energies
    # 0.25 ps apart are correlated by exp(-0.5): 40 samples count as 10 independent ones.
    deviation = (2 / (3 * n_atoms)) ** 0.5 * temperature
    error = deviation / 10**0.5
    # In a harmonic well BAOAB has positions without bias and velocities colder by (omega dt)²/4:
    # Leimkuhler and Matthews, J. Chem. Phys. 138, 174102 (2013), doi:10.1063/1.4802990.
    assert abs(np.mean(potential) - temperature) < 4 * error
    squares = 1.0 / (AMU_A2_FS2_EV * state.masses) * timestep**2
    assert abs(np.mean(kinetic) / (1 - squares.mean().item() / 4) - temperature) < 4 * error
    # Ten samples know their deviation to about a quarter.
    assert 0.4 * deviation < np.std(potential) < 1.6 * deviation


def test_heats_and_cools(make_forces: Callable, start: Callable, freedom: Callable) -> None:
    free = freedom(32, conserves_momentum=False)
    for first, target in ((0.0, 60.0), (120.0, 60.0)):
        forces = make_forces()
        state = start(forces, first)
        integrator = LangevinBAOAB(4.0, target, 20.0, 2, free)
        samples = []
        begin = conserved_energy(state)
        for step in range(600):
            state = integrator.step(state, forces)
            if step >= 200:
                samples.append(kinetic_temperature(state, free).item())
        # 96 degrees of freedom deviate by 8.7 K; 1.6 ps hold more than 16 independent samples.
        assert np.mean(samples) == pytest.approx(target, abs=4 * 8.7 / 4)
        assert abs(conserved_energy(state) - begin) < 0.01 * abs(float(state.bath_energy))


def test_without_friction_is_verlet(
    make_forces: Callable, start: Callable, freedom: Callable
) -> None:
    forces = make_forces()
    a = b = start(forces, 80.0)
    free = freedom(32)
    langevin, verlet = LangevinBAOAB(4.0, 300.0, 0.0, 0, free), VelocityVerlet(4.0, free)
    for _ in range(20):
        a, b = langevin.step(a, forces), verlet.step(b, forces)
    torch.testing.assert_close(a.positions, b.positions, rtol=0, atol=1e-11)
    assert a.bath_energy == 0


def test_fixed_centre_of_mass_has_its_own_distribution(
    gas: Callable, ideal_gas: Callable, freedom: Callable
) -> None:
    state = gas(3, 300.0, 10.0)
    state = state._replace(masses=torch.tensor([1.0, 5.0, 30.0], dtype=torch.float64))
    state = state._replace(velocities=state.velocities * 0)
    integrator = LangevinBAOAB(1.0, 300.0, 300.0, 4, freedom(3))
    samples = []
    for step in range(8000):
        state = integrator.step(state, ideal_gas)
        if step % 8 == 0 and step > 80:
            samples.append(kinetic_energy(state).item())
    momentum = (state.masses[:, None] * state.velocities).sum(0)
    assert momentum.abs().max() < 1e-12
    # Energies 8 steps apart are correlated by exp(-4.8): independent.
    scale = BOLTZMANN_EV_K * 300.0
    assert stats.kstest(samples, stats.gamma(3, scale=scale).cdf).pvalue > 1e-3
    assert stats.kstest(samples, stats.gamma(4.5, scale=scale).cdf).pvalue < 1e-6


def test_follows_a_ramp(gas: Callable, ideal_gas: Callable, freedom: Callable) -> None:
    free = freedom(2000, conserves_momentum=False)
    state = gas(2000, 100.0, 10.0)
    ramp = Schedule([(0.0, 100.0), (100.0, 300.0)])
    integrator = LangevinBAOAB(1.0, ramp, 1000.0, 5, free)
    found = []
    for _ in range(120):
        state = integrator.step(state, ideal_gas)
        found.append(kinetic_temperature(state, free).item())
    # With a friction of 1/fs energies lag by half a femtosecond; 6000 numbers know 300 K to 5.5 K.
    assert found[49] == pytest.approx(200.0, abs=4 * 3.7)
    assert found[99] == pytest.approx(300.0, abs=4 * 5.5)
    assert found[119] == pytest.approx(300.0, abs=4 * 5.5)
