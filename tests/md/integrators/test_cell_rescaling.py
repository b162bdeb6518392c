"""Stochastic cell rescaling: distributions of volume and shape, and the energy's books."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from md_gie.engine.base import Evaluation
from md_gie.md import Freedom, Schedule, StochasticCellRescaling, differentiable_forces
from md_gie.md.integrators.cell_rescaling import Coupling
from md_gie.md.state import MDState, conserved_energy, kinetic_energy, volume
from md_gie.units import BOLTZMANN_EV_K, EV_A3_GPA

KT = BOLTZMANN_EV_K * 300.0


@pytest.mark.parametrize(
    ("coupling", "n_steps"), [("isotropic", 10000), ("anisotropic", 4000), ("full-cell", 4000)]
)
def test_volume_of_an_ideal_gas_is_gamma_distributed(
    coupling: Coupling, n_steps: int, gas: Callable, ideal_gas: Callable, freedom: Callable
) -> None:
    n_atoms, pressure, relaxation = 4, 0.005, 20
    state = gas(n_atoms, 300.0, ((n_atoms + 1) * KT / pressure) ** (1 / 3))
    integrator = StochasticCellRescaling(
        1.0,
        300.0,
        pressure * EV_A3_GPA,
        thermostat_fs=5.0,
        barostat_fs=float(relaxation),
        compressibility_per_GPa=1 / (pressure * EV_A3_GPA),
        coupling=coupling,
        seed=2,
        freedom=freedom(n_atoms),
    )
    volumes = []
    for step in range(n_steps):
        state = integrator.step(state, ideal_gas)
        if step % (3 * relaxation) == 0 and step > 10 * relaxation:
            volumes.append(volume(state.cell).item())
    # V^N exp(-PV/kT), although only N - 1 atoms' worth of momentum presses on the walls.
    exact = stats.gamma(n_atoms + 1, scale=KT / pressure)
    # Of the mean's error, correlation exp(-3) between samples makes a tenth.
    error = 1.05 * exact.std() / len(volumes) ** 0.5
    assert np.mean(volumes) == pytest.approx(exact.mean(), abs=4 * error)
    assert stats.kstest(volumes, exact.cdf).pvalue > 1e-3
    without_center = stats.gamma(n_atoms, scale=KT / pressure)
    assert stats.kstest(volumes, without_center.cdf).pvalue < 1e-3
    shape = state.cell / volume(state.cell) ** (1 / 3)
    is_cube = torch.allclose(shape, torch.eye(3, dtype=torch.float64), atol=1e-9)
    assert is_cube == (coupling == "isotropic")
    assert bool((shape - torch.diag(shape.diag())).any()) == (coupling == "full-cell")


def elastic(positions: Tensor, cell: Tensor) -> Tensor:
    """Energy of a cell of 10 Å with a stiffness of 0.02 eV/Å³, and nothing for its atoms."""
    deformation = cell / 10.0
    strain = 0.5 * (deformation @ deformation.T - torch.eye(3, dtype=torch.float64))
    return 0.5 * 0.02 * 1000.0 * strain.square().sum() + 0.0 * positions.sum()


def test_strains_of_an_elastic_cell_share_its_energy(gas: Callable, freedom: Callable) -> None:
    evaluate = differentiable_forces(elastic)

    def detached(positions: Tensor, cell: Tensor) -> Evaluation:
        result = evaluate(positions, cell)
        return Evaluation(*(value.detach() for value in result[:4]))

    start = gas(2, 300.0, 10.0)
    state = MDState.start(start.positions, start.velocities, start.masses, start.cell, detached)
    # Two atoms of an ideal gas, whose pressure the barostat bears.
    integrator = StochasticCellRescaling(
        1.0,
        300.0,
        2 * KT / 1000.0 * EV_A3_GPA,
        thermostat_fs=5.0,
        barostat_fs=5.0,
        compressibility_per_GPa=1 / (0.02 * EV_A3_GPA),
        coupling="full-cell",
        seed=3,
        freedom=freedom(2),
    )
    strains = []
    for step in range(5000):
        state = integrator.step(state, detached)
        if step % 30 == 29:
            deformation = state.cell / 10.0
            strains.append(0.5 * (deformation @ deformation.T - torch.eye(3)))
    squares = torch.stack(strains).square()
    diagonal = squares.diagonal(dim1=1, dim2=2).mean().item()
    outside = squares[:, [0, 0, 1], [1, 2, 2]].mean().item()
    # kT / 2 each; a strain off the diagonal counts twice in the energy. 170 samples of three
    # numbers know a variance to 6 %. The Euler step makes it larger by
    # dt / 6 tau, a thirtieth, and the strain itself is not small: a few per cent more.
    assert diagonal == pytest.approx(KT / 20.0, rel=0.2)
    assert outside == pytest.approx(KT / 40.0, rel=0.2)


@pytest.mark.parametrize("coupling", ["isotropic", "full-cell"])
def test_bath_keeps_the_books(
    coupling: Coupling, make_forces: Callable, start: Callable, freedom: Callable
) -> None:
    errors = []
    for timestep in (8.0, 4.0):
        squares = []
        for seed in range(4):
            forces = make_forces()
            state = start(forces, 60.0)
            integrator = argon_barostat(timestep, 60.0, 0.1, coupling, freedom(32), seed)
            energies, enthalpies = [], []
            for _ in range(int(400 / timestep)):
                state = integrator.step(state, forces)
                energies.append(conserved_energy(state).item())
                enthalpies.append((state.energy + kinetic_energy(state)).item())
            squares.append(np.var(energies))
            assert np.std(enthalpies) > 10 * np.std(energies)
        errors.append(np.mean(squares) ** 0.5)
    # Four for the timestep's square, two for the third power of the noise, which full-cell has
    # more of; met roughly, as the runs differ in their noise.
    assert (2.8 if coupling == "isotropic" else 1.7) < errors[0] / errors[1] < 5.7
    assert errors[1] < 32 * 1e-6


def test_pressure_follows_a_ramp(make_forces: Callable, start: Callable, freedom: Callable) -> None:
    forces = make_forces()
    state = start(forces, 40.0)
    ramp = Schedule([(0.0, 0.0), (1000.0, 1.0)])
    integrator = argon_barostat(4.0, 40.0, ramp, "anisotropic", freedom(32))
    volumes, pressures = [], []
    for step in range(600):
        state = integrator.step(state, forces)
        if step >= 300:
            volumes.append(volume(state.cell).item())
            virial = state.virial.trace() + 2 * kinetic_energy(state)
            pressures.append((virial / (3 * volume(state.cell))).item() * EV_A3_GPA)
    assert np.mean(volumes) < 0.92 * 10.8**3
    # Pressures of 32 atoms fluctuate by some 0.1 GPa; 300 steps hold a dozen independent ones.
    assert np.mean(pressures) == pytest.approx(1.0, abs=0.12)


def test_fractions_are_kept_and_the_centre_rests(
    gas: Callable, ideal_gas: Callable, freedom: Callable
) -> None:
    state = gas(6, 300.0, 10.0)
    still = state._replace(velocities=1e-9 * state.velocities)
    integrator = StochasticCellRescaling(
        1.0,
        300.0,
        1.0,
        thermostat_fs=1e18,
        barostat_fs=100.0,
        compressibility_per_GPa=1.0,
        coupling="full-cell",
        seed=2,
        freedom=freedom(6),
    )
    moved = integrator.step(still, ideal_gas)
    assert (moved.cell - still.cell).abs().max() > 1e-3
    before = still.positions @ torch.linalg.inv(still.cell)
    after = moved.positions @ torch.linalg.inv(moved.cell)
    torch.testing.assert_close(after, before, rtol=0, atol=1e-9)
    for _ in range(50):
        state = integrator.step(state, ideal_gas)
    assert (state.masses[:, None] * state.velocities).sum(0).abs().max() < 1e-12


def argon_barostat(
    timestep: float,
    temperature_K: float,
    pressure_GPa: float | Schedule,
    coupling: Coupling,
    free: Freedom,
    seed: int = 3,
) -> StochasticCellRescaling:
    return StochasticCellRescaling(
        timestep,
        temperature_K,
        pressure_GPa,
        thermostat_fs=200.0,
        barostat_fs=200.0,
        compressibility_per_GPa=0.3,
        coupling=coupling,
        seed=seed,
        freedom=free,
    )
