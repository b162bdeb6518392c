"""Nosé–Hoover chains: ASE's on the same atoms, conservation, reversal, and sampling."""

from collections.abc import Callable

import ase.units
import numpy as np
import pytest
import torch
from ase.md.nose_hoover_chain import NoseHooverChainNVT

from md_gie.md import Freedom, NoseHooverChains, Schedule
from md_gie.md.state import conserved_energy, kinetic_energy, kinetic_temperature
from md_gie.structure import Structure
from md_gie.units import AMU_A2_FS2_EV, BOLTZMANN_EV_K


@pytest.mark.parametrize("length", [1, 4])
def test_agrees_with_ase(
    length: int, make_forces: Callable, start: Callable, argon: Structure, in_ase: Callable
) -> None:
    forces = make_forces()
    state = start(forces, 80.0)
    atoms = in_ase(argon, state)
    # ASE counts three degrees of freedom for each atom.
    integrator = NoseHooverChains(4.0, 50.0, 60.0, length, Freedom(96))
    state = integrator.start(state)
    for _ in range(100):
        state = integrator.step(state, forces)
    unit = AMU_A2_FS2_EV**0.5
    kelvin = BOLTZMANN_EV_K / ase.units.kB
    theirs = NoseHooverChainNVT(atoms, 4.0 / unit, 50.0 * kelvin, 60.0 / unit, tchain=length)
    theirs.run(100)
    np.testing.assert_allclose(atoms.positions, state.positions, rtol=0, atol=1e-9)
    np.testing.assert_allclose(atoms.get_velocities() / unit, state.velocities, rtol=0, atol=1e-11)
    bath = theirs.get_conserved_energy() - atoms.get_total_energy()
    assert state.bath_energy.item() == pytest.approx(bath, abs=1e-9)
    assert abs(bath) > 0.05


@pytest.mark.parametrize("ramped", [False, True])
def test_conserved_energy_is_of_second_order(
    ramped: bool, make_forces: Callable, start: Callable, freedom: Callable
) -> None:
    temperature = Schedule([(0.0, 80.0), (1600.0, 40.0)]) if ramped else 80.0
    errors = []
    for timestep in (8.0, 4.0):
        forces = make_forces()
        integrator = NoseHooverChains(timestep, temperature, 150.0, 3, freedom(32))
        state = integrator.start(start(forces, 80.0))
        energies = []
        for _ in range(int(1600 / timestep)):
            state = integrator.step(state, forces)
            energies.append(conserved_energy(state).item())
        errors.append(np.std(energies))
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.2)
    assert abs(state.bath_energy.item()) > 50 * errors[1]


def test_goes_back_in_time(make_forces: Callable, start: Callable, freedom: Callable) -> None:
    forces = make_forces()
    integrator = NoseHooverChains(4.0, 50.0, 80.0, 3, freedom(32))
    first = state = integrator.start(start(forces, 80.0))
    for _ in range(60):
        state = integrator.step(state, forces)
    rates, work = state.bath[:-1], state.bath[-1:]
    state = state._replace(velocities=-state.velocities, bath=torch.cat([-rates, work]))
    for _ in range(60):
        state = integrator.step(state, forces)
    torch.testing.assert_close(state.positions, first.positions, rtol=0, atol=1e-9)
    torch.testing.assert_close(state.bath, first.bath, rtol=0, atol=1e-9)


def test_samples_the_canonical_kinetic_energy(
    make_forces: Callable, start: Callable, freedom: Callable
) -> None:
    free, forces = freedom(32), make_forces()
    integrator = NoseHooverChains(5.0, 80.0, 100.0, 3, free)
    state = integrator.start(start(forces, 80.0))
    energies = []
    for step in range(2500):
        state = integrator.step(state, forces)
        if step >= 300:
            energies.append(kinetic_energy(state).item())
    scale = BOLTZMANN_EV_K * 80.0
    # 11 ps with a memory of about 0.2 ps: some 50 independent samples.
    exact = (free.count / 2) ** 0.5 * scale
    assert np.mean(energies) == pytest.approx(free.count / 2 * scale, abs=4 * exact / 50**0.5)
    assert np.std(energies) == pytest.approx(exact, rel=4 / 100**0.5)
    assert kinetic_temperature(state, free) < 200
