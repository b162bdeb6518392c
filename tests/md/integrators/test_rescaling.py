"""Stochastic velocity rescaling: the kinetic energy's distribution, its memory, and the bath."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats

from md_gie.md import BussiVerlet, VelocityVerlet
from md_gie.md.state import conserved_energy, kinetic_energy, kinetic_temperature
from md_gie.units import AMU_A2_FS2_EV, BOLTZMANN_EV_K


@pytest.mark.parametrize(("n_atoms", "time_fs"), [(2, 4.0), (20, 4.0), (5, 0.0)])
def test_kinetic_energy_is_gamma_distributed(
    n_atoms: int, time_fs: float, gas: Callable, ideal_gas: Callable, freedom: Callable
) -> None:
    free = freedom(n_atoms)
    state = gas(n_atoms, 900.0, 10.0)
    integrator = BussiVerlet(1.0, 300.0, time_fs, 6, free)
    every = 5 * int(time_fs) + 1  # correlated by less than exp(-5)
    samples = []
    for step in range(600 * every):
        state = integrator.step(state, ideal_gas)
        if step % every == 0 and step > 20 * time_fs:
            samples.append(kinetic_energy(state).item())
    exact = stats.gamma(free.count / 2, scale=BOLTZMANN_EV_K * 300.0)
    assert stats.kstest(samples, exact.cdf).pvalue > 1e-3
    with_center = stats.gamma(3 * n_atoms / 2, scale=BOLTZMANN_EV_K * 300.0)
    assert stats.kstest(samples, with_center.cdf).pvalue < 1e-3
    momentum = (state.masses[:, None] * state.velocities).sum(0)
    assert momentum.abs().max() < 1e-9


def test_one_degree_of_freedom_is_a_normal_number(
    gas: Callable, ideal_gas: Callable, freedom: Callable
) -> None:
    # Two atoms that move along their axis alone; the sign of the velocity must change.
    free = freedom(2, n_rotations=2)
    assert free.count == 1
    state = gas(2, 300.0, 10.0)
    along = torch.tensor([[1.0, 0, 0], [-1.0, 0, 0]], dtype=torch.float64) * 1e-2
    state = state._replace(velocities=along)
    integrator = BussiVerlet(1.0, 300.0, 3.0, 6, free)
    samples = []
    for step in range(15000):
        state = integrator.step(state, ideal_gas)
        if step % 15 == 14:
            samples.append(state.velocities[0, 0].item() * (2 * 10.0 * AMU_A2_FS2_EV) ** 0.5)
    spread = (BOLTZMANN_EV_K * 300.0) ** 0.5
    assert stats.kstest(samples, stats.norm(scale=spread).cdf).pvalue > 1e-3


def test_kinetic_energy_relaxes_in_the_given_time(
    gas: Callable, ideal_gas: Callable, freedom: Callable
) -> None:
    free = freedom(3000)
    state = gas(3000, 600.0, 10.0)
    integrator = BussiVerlet(1.0, 300.0, 20.0, 1, free)
    for _ in range(20):
        state = integrator.step(state, ideal_gas)
    # exp(-1) of 300 K is left; 9000 degrees of freedom fluctuate by 6 K.
    assert kinetic_temperature(state, free).item() == pytest.approx(300 + 300 / np.e, abs=24)


def test_bath_keeps_the_books(make_forces: Callable, start: Callable, freedom: Callable) -> None:
    errors = []
    for timestep in (8.0, 4.0):
        forces = make_forces()
        state = start(forces, 80.0)
        integrator = BussiVerlet(timestep, 80.0, 200.0, 3, freedom(32))
        energies = []
        for _ in range(int(1600 / timestep)):
            state = integrator.step(state, forces)
            energies.append(conserved_energy(state).item())
        errors.append(np.std(energies))
        assert abs(state.bath_energy.item()) > 20 * errors[-1]
    # The two runs have different noise, so that four is met only roughly.
    assert 3.0 < errors[0] / errors[1] < 5.5


def test_slow_thermostat_is_verlet(
    make_forces: Callable, start: Callable, freedom: Callable
) -> None:
    forces = make_forces()
    a = b = start(forces, 80.0)
    bussi, verlet = BussiVerlet(4.0, 300.0, 1e18, 0, freedom(32)), VelocityVerlet(4.0, freedom(32))
    for _ in range(20):
        a, b = bussi.step(a, forces), verlet.step(b, forces)
    torch.testing.assert_close(a.positions, b.positions, rtol=0, atol=1e-6)
