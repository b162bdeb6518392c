"""Velocity Verlet: trajectory, order, conservation, frozen atoms, and ASE's on the same atoms."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from ase.md.verlet import VelocityVerlet as ASEVelocityVerlet

from md_gie.md import LangevinBAOAB, VelocityVerlet
from md_gie.md.state import MDState, conserved_energy
from md_gie.structure import Structure
from md_gie.units import AMU_A2_FS2_EV


def test_follows_a_harmonic_oscillator(springs: Callable, freedom: Callable) -> None:
    mass = torch.tensor([10.0], dtype=torch.float64)
    positions = torch.tensor([[0.1, 0.0, 0.0]], dtype=torch.float64)
    state = MDState.start(positions, torch.zeros_like(positions), mass, torch.eye(3), springs)
    frequency = (1.0 / (10.0 * AMU_A2_FS2_EV)) ** 0.5
    timestep = 0.01 / frequency
    integrator = VelocityVerlet(timestep, freedom(1))
    for _ in range(200):
        state = integrator.step(state, springs)
    # Verlet's own frequency is higher by (omega dt)²/24, a phase of 8e-6 after two radians.
    assert state.positions[0, 0].item() == pytest.approx(0.1 * np.cos(2.0), abs=2e-6)
    assert state.velocities[0, 0].item() == pytest.approx(-0.1 * frequency * np.sin(2.0), rel=2e-5)


def test_energy_error_is_of_second_order(
    make_forces: Callable, start: Callable, freedom: Callable
) -> None:
    errors = []
    for timestep in (8.0, 4.0):
        forces = make_forces()
        state = start(forces, 80.0)
        integrator = VelocityVerlet(timestep, freedom(32))
        energies = []
        for _ in range(int(1600 / timestep)):
            state = integrator.step(state, forces)
            energies.append(conserved_energy(state).item())
        errors.append(np.std(energies))
    assert errors[1] > 0
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.15)


def test_conserves_momentum_and_goes_back_in_time(
    make_forces: Callable, start: Callable, freedom: Callable
) -> None:
    forces = make_forces()
    first = state = start(forces, 80.0)
    integrator = VelocityVerlet(4.0, freedom(32))
    for _ in range(100):
        state = integrator.step(state, forces)
    momentum = (state.masses[:, None] * state.velocities).sum(0)
    assert momentum.abs().max() < 1e-12
    state = state._replace(velocities=-state.velocities)
    for _ in range(100):
        state = integrator.step(state, forces)
    torch.testing.assert_close(state.positions, first.positions, rtol=0, atol=1e-9)


def test_frozen_atoms_stay_and_the_rest_keeps_its_energy(
    make_forces: Callable, start: Callable, freedom: Callable
) -> None:
    frozen = torch.zeros(32, dtype=torch.bool)
    frozen[[0, 5, 31]] = True
    free = freedom(32, frozen=frozen)
    forces = make_forces()
    state = start(forces, 80.0)
    state = first = state._replace(velocities=free.restrict(state.velocities))
    for integrator in (VelocityVerlet(2.0, free), LangevinBAOAB(2.0, 80.0, 5.0, 3, free)):
        for _ in range(50):
            state = integrator.step(state, forces)
        assert torch.equal(state.positions[frozen], first.positions[frozen])
        assert not state.velocities[frozen].any()
        assert (state.positions[~frozen] != first.positions[~frozen]).all()
        assert state.forces[frozen].abs().max() > 1e-3, "forces are those of the potential"
        assert abs(conserved_energy(state) - conserved_energy(first)).item() < 1e-3


def test_agrees_with_ase(
    make_forces: Callable, start: Callable, argon: Structure, in_ase: Callable, freedom: Callable
) -> None:
    forces = make_forces()
    state = start(forces, 80.0)
    atoms = in_ase(argon, state)
    integrator = VelocityVerlet(4.0, freedom(32))
    for _ in range(100):
        state = integrator.step(state, forces)
    ASEVelocityVerlet(atoms, 4.0 / AMU_A2_FS2_EV**0.5).run(100)
    np.testing.assert_allclose(atoms.positions, state.positions, rtol=0, atol=1e-9)
    np.testing.assert_allclose(atoms.get_potential_energy(), state.energy, rtol=0, atol=1e-9)
