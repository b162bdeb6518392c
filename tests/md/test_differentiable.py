"""Gradients through trajectories: against differences, with checkpoints, and put to use."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from md_gie.engine import load_potential
from md_gie.md import (
    BussiVerlet,
    Freedom,
    Integrator,
    LangevinBAOAB,
    MDState,
    NoseHooverChains,
    StochasticCellRescaling,
    VelocityVerlet,
    differentiable_forces,
    model_energy,
    roll,
)
from md_gie.md.state import Evaluate
from md_gie.model import load_model
from md_gie.neighbors import NeighborCache

MODEL = Path(__file__).parents[1] / "data" / "dpa4" / "p0_smoke.pt"

FREE = Freedom.of(4, conserves_momentum=True)
MAKERS: dict[str, Callable[[], Integrator]] = {
    "verlet": lambda: VelocityVerlet(2.0, FREE),
    "langevin": lambda: LangevinBAOAB(2.0, 300.0, 5.0, 1, FREE),
    "bussi": lambda: BussiVerlet(2.0, 300.0, 50.0, 1, FREE),
    "nose-hoover": lambda: NoseHooverChains(2.0, 300.0, 50.0, 3, FREE),
    "full-cell": lambda: StochasticCellRescaling(
        2.0,
        300.0,
        0.1,
        thermostat_fs=50.0,
        barostat_fs=200.0,
        compressibility_per_GPa=1.0,
        coupling="full-cell",
        seed=1,
        freedom=FREE,
    ),
}


def cluster(depth: Tensor) -> Evaluate:
    """Lennard-Jones atoms of 3.4 Å, all pairs, without periodicity."""
    first, second = torch.triu_indices(4, 4, offset=1)

    def energy(positions: Tensor, cell: Tensor) -> Tensor:
        squares = (positions[first] - positions[second]).square().sum(1)
        s6 = (3.4**2 / squares) ** 3
        return (4 * depth * (s6 * s6 - s6)).sum()

    return differentiable_forces(energy)


def begin(integrator: Integrator, evaluate: Evaluate, masses: Tensor | None = None) -> MDState:
    corners = torch.tensor([[0, 0, 0], [1, 1, 0], [1, 0, 1], [0, 1, 1]], dtype=torch.float64)
    generator = torch.Generator().manual_seed(3)
    velocities = 1e-3 * torch.randn(4, 3, generator=generator, dtype=torch.float64)
    velocities = velocities - velocities.mean(0)
    masses = torch.full((4,), 40.0, dtype=torch.float64) if masses is None else masses
    cell = 20.0 * torch.eye(3, dtype=torch.float64)
    return integrator.start(MDState.start(2.6 * corners, velocities, masses, cell, evaluate))


def square_sum(state: MDState) -> Tensor:
    return state.positions.square().sum() + 1e4 * state.velocities.square().sum()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_gradients_agree_with_differences(make: Callable[[], Integrator]) -> None:
    def final(depth: Tensor, mass: Tensor) -> Tensor:
        evaluate = cluster(depth)
        masses = mass * torch.tensor([1.0, 1.0, 1.0, 1.2], dtype=torch.float64)
        state = begin(make(), evaluate, masses)
        return square_sum(roll(state, make(), evaluate, 8, segment=3))

    point = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (0.01, 40.0)]
    gradients = torch.autograd.grad(final(*point), point)
    for place, gradient in enumerate(gradients):
        values = []
        for sign in (1, -1):
            shifted = [x.detach() for x in point]
            shifted[place] = shifted[place] * (1 + sign * 1e-5)
            values.append(final(*shifted).item())
        numeric = (values[0] - values[1]) / (2e-5 * point[place].item())
        assert gradient.item() == pytest.approx(numeric, rel=1e-5, abs=1e-9)
        assert abs(numeric) > 1e-6


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_checkpoints_change_no_number(make: Callable[[], Integrator]) -> None:
    results = []
    for segment in (4, 100):
        depth = torch.tensor(0.01, dtype=torch.float64, requires_grad=True)
        evaluate = cluster(depth)
        state = roll(begin(make(), evaluate), make(), evaluate, 9, segment=segment)
        assert state.step == 9
        (gradient,) = torch.autograd.grad(square_sum(state), depth)
        results.append((state.positions.detach(), gradient))
    single = begin(make(), evaluate)
    for _ in range(9):
        single = make().step(single, evaluate)
    for positions, gradient in results:
        assert torch.equal(positions, single.positions)
        torch.testing.assert_close(gradient, results[0][1], rtol=1e-12, atol=0)


def test_one_parameter_is_fitted_through_fifty_steps() -> None:
    integrator = MAKERS["verlet"]()
    true = cluster(torch.tensor(0.0104, dtype=torch.float64))
    target = roll(begin(integrator, true), integrator, true, 50).positions.detach()
    depth = torch.tensor(0.007, dtype=torch.float64, requires_grad=True)
    for _ in range(5):
        evaluate = cluster(depth)
        found = roll(begin(integrator, evaluate), integrator, evaluate, 50).positions
        loss = (found - target).square().sum()
        (gradient,) = torch.autograd.grad(loss, depth)
        # One parameter: the loss is nearly (depth - true)² times a constant, and so is a step of
        # Newton's on its root.
        with torch.no_grad():
            depth -= 2 * loss / gradient if gradient else 0.0
    assert loss.item() < 1e-12
    assert depth.item() == pytest.approx(0.0104, rel=1e-6)


def test_gradients_reach_the_parameters_of_a_model() -> None:
    model = load_model(MODEL).double().requires_grad_(False)
    engine = load_potential(MODEL, dtype="float64", device="cpu")
    numbers = [8, 1, 1] * 2
    molecule = torch.tensor([[0.0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0]], dtype=torch.float64)
    positions = torch.cat([molecule, molecule + 2.9])
    masses = torch.tensor([16.0, 1.0, 1.0] * 2, dtype=torch.float64)
    # Each atom sees images: the shifts of edges matter, also for the derivative by the cell.
    cell = torch.tensor([[5.6, 0, 0], [0.4, 5.8, 0], [0, -0.3, 6.0]], dtype=torch.float64)
    types = engine.types_of(numbers)
    evaluate = differentiable_forces(
        model_energy(model, types, NeighborCache(engine.cutoff, 0.5), (True,) * 3)
    )
    result = evaluate(positions, cell)
    edges = NeighborCache(engine.cutoff, 0.5).update(positions, cell, [True] * 3)
    exact = engine.evaluate(types, edges)
    torch.testing.assert_close(result.forces, exact.forces, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(result.virial, exact.virial, rtol=1e-9, atol=1e-9)
    integrator = VelocityVerlet(0.25, Freedom.of(6, conserves_momentum=True))
    parameter = dict(model.named_parameters())["descriptor.radial_embedding.net.0.matrix"]

    def final() -> Tensor:
        begun = MDState.start(positions, 0 * positions, masses, cell, evaluate)
        return square_sum(roll(begun, integrator, evaluate, 3, segment=2))

    parameter.requires_grad_()
    (gradient,) = torch.autograd.grad(final(), parameter)
    parameter.requires_grad_(False)
    direction = gradient / gradient.norm()
    values = []
    for sign in (1, -1):
        parameter += sign * 1e-4 * direction
        values.append(final().item())
        parameter -= sign * 1e-4 * direction
    assert (values[0] - values[1]) / 2e-4 == pytest.approx(gradient.norm().item(), rel=1e-5)
    assert gradient.norm() > 1e-6
