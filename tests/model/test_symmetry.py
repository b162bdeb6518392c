"""What holds for every DPA4 model whatever its parameters: symmetries, smoothness, locality."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation
from torch import Tensor

from md_gie.engine.derivatives import forces_from_edges
from md_gie.model import DPA4
from md_gie.neighbors import Edges

Edging = Callable[..., Edges]
Evaluate = Callable[[DPA4, Tensor, Edges], tuple[Tensor, Tensor]]

TOLERANCE = 1e-11  # relative to the largest force or max(1, |E|)
OPTIONS: dict[str, dict[str, Any]] = {
    "all-boxes": {},
    "plain": {
        "n_focus": 1, "edge_norm": False, "radial_so2_mode": "none", "message_node_so3": False,
        "ffn_so3_grid": False, "grid_branch": 0, "so3_readout": "none",
    },
    "second-order": {"mmax": 2, "n_atten_head": 2, "radial_so2_rank": 0, "so3_readout": "glu"},
    "no-seed": {"use_env_seed": False, "n_atten_head": 0, "kmax": 0},
}  # fmt: skip
CELL = np.array([[5.2, 0.0, 0.0], [1.1, 4.9, 0.0], [-0.7, 0.9, 5.5]])


@pytest.fixture(scope="module")
def structure() -> tuple[np.ndarray, Tensor]:
    rng = np.random.default_rng(2)
    grid = np.array([[x, y, z] for x in (0.2, 0.7) for y in (0.25, 0.75) for z in (0.3, 0.8)])
    positions = (grid + 0.05 * rng.normal(size=grid.shape)) @ CELL
    return positions, torch.tensor([0, 1, 1, 0, 1, 0, 1, 1])


@pytest.fixture(params=OPTIONS.values(), ids=OPTIONS)
def model(request: pytest.FixtureRequest, make_model: Callable[..., DPA4]) -> DPA4:
    return make_model(**request.param)


def close(got: Tensor, want: Tensor) -> None:
    scale = max(1.0, float(want.abs().max()))
    torch.testing.assert_close(got, want, rtol=0.0, atol=TOLERANCE * scale)


@pytest.mark.parametrize("seed", [0, 1])
def test_rotation(
    seed: int, model: DPA4, structure: Any, edges_of: Edging, energy_and_gradient: Evaluate
) -> None:
    positions, types = structure
    turn = Rotation.random(rng=np.random.default_rng(seed)).as_matrix()
    one, two = edges_of(positions, CELL, True), edges_of(positions @ turn.T, CELL @ turn.T, True)
    assert one.n_edges == two.n_edges > 100
    (energy, gradient), (turned, other) = (energy_and_gradient(model, types, e) for e in (one, two))
    close(turned, energy)
    close(forces_from_edges(other, two), forces_from_edges(gradient, one) @ torch.tensor(turn).T)


def test_translation_wrapping_and_permutation(
    model: DPA4, structure: Any, edges_of: Edging, energy_and_gradient: Evaluate
) -> None:
    positions, types = structure
    rng = np.random.default_rng(4)
    images = rng.integers(-2, 3, size=(8, 3))
    order = torch.from_numpy(rng.permutation(8))
    moved = (positions + [0.3, -7.1, 2.2] + images @ CELL)[order.numpy()]
    one, two = edges_of(positions, CELL, True), edges_of(moved, CELL, True)
    energy, gradient = energy_and_gradient(model, types, one)
    other, other_gradient = energy_and_gradient(model, types[order], two)
    close(other, energy[order])
    close(forces_from_edges(other_gradient, two), forces_from_edges(gradient, one)[order])


def test_supercell(
    model: DPA4, structure: Any, edges_of: Edging, energy_and_gradient: Evaluate
) -> None:
    positions, types = structure
    one = edges_of(positions, CELL, True)
    double = np.concatenate([positions, positions + CELL[1]])
    two = edges_of(double, CELL * [[1], [2], [1]], True)
    energy, gradient = energy_and_gradient(model, types, one)
    other, other_gradient = energy_and_gradient(model, types.repeat(2), two)
    close(other, energy.repeat(2))
    close(forces_from_edges(other_gradient, two), forces_from_edges(gradient, one).repeat(2, 1))


def test_edges_beyond_the_cutoff_add_nothing(
    model: DPA4, structure: Any, edges_of: Edging, energy_and_gradient: Evaluate
) -> None:
    positions, types = structure
    one, two = edges_of(positions, CELL, True), edges_of(positions, CELL, True, skin=0.8)
    length = two.vectors.norm(dim=1)
    outside = length >= 4.0
    assert outside.sum() > 50
    energy, gradient = energy_and_gradient(model, types, one)
    other, other_gradient = energy_and_gradient(model, types, two)
    close(other, energy)
    assert (other_gradient[outside] == 0).all()
    close(forces_from_edges(other_gradient, two), forces_from_edges(gradient, one))


def test_an_edge_fades_at_the_cutoff(
    model: DPA4, edges_of: Edging, energy_and_gradient: Evaluate
) -> None:
    """Energy leaves its limit with the fourth power of the distance left, forces with the third."""
    types = torch.tensor([0, 1, 1])
    near = np.array([[0.0, 0, 0], [0.9, 0.4, 0.1]])

    def at(distance: float) -> tuple[float, Tensor]:
        edges = edges_of(np.concatenate([near, [[-distance, 0, 0]]]), skin=2.0)
        energies, gradient = energy_and_gradient(model, types, edges)
        return float(energies.sum()), forces_from_edges(gradient, edges)[2]

    limit, force = at(4.0)
    assert force.abs().max() == 0
    assert at(4.0 + 1e-9)[0] == pytest.approx(limit, abs=1e-12)
    energies, forces = zip(*(at(4.0 - h) for h in (0.04, 0.02)), strict=True)
    steps = [abs(energy - limit) for energy in energies]
    assert 0 < steps[1] < steps[0] / 10
    assert forces[1].abs().max() < forces[0].abs().max() / 5


@pytest.fixture(scope="module")
def default_model(make_model: Callable[..., DPA4]) -> Callable[[], DPA4]:
    model = make_model()
    return lambda: model


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), n_atoms=st.integers(1, 7), size=st.floats(2.0, 7.0))
def test_random_clusters_have_no_net_force_nor_torque(
    seed: int,
    n_atoms: int,
    size: float,
    default_model: Callable[[], DPA4],
    edges_of: Edging,
    energy_and_gradient: Evaluate,
) -> None:
    rng = np.random.default_rng(seed)
    positions = rng.uniform(0, size, size=(n_atoms, 3))
    edges = edges_of(positions)
    types = torch.from_numpy(rng.integers(0, 2, n_atoms))
    energy, gradient = energy_and_gradient(default_model(), types, edges)
    assert torch.isfinite(energy).all()
    forces = forces_from_edges(gradient, edges)
    scale = max([1.0, *gradient.abs().flatten().tolist()]) * max(1, edges.n_edges)
    assert float(forces.sum(0).abs().max()) <= 1e-12 * scale
    torque = torch.linalg.cross(torch.from_numpy(positions), forces).sum(0)
    assert float(torque.abs().max()) <= 1e-9 * scale


def test_fused_kernels_agree_with_the_reference(
    model: DPA4, structure: Any, edges_of: Edging, energy_and_gradient: Evaluate
) -> None:
    positions, types = structure
    edges = edges_of(positions, CELL, True)
    energy, gradient = energy_and_gradient(model, types, edges)
    for kernels in ("auto", "reference"):
        frozen = model.freeze(torch.float64, "cpu", kernels)
        got, other = energy_and_gradient(frozen, types, edges)
        close(got, energy)
        close(forces_from_edges(other, edges), forces_from_edges(gradient, edges))


def test_force_loss_has_the_right_gradient(model: DPA4, structure: Any, edges_of: Edging) -> None:
    """Second derivatives: the gradient of a force loss, against finite differences."""
    positions, types = structure
    edges = edges_of(positions[:4])
    generator = torch.Generator().manual_seed(8)
    target = torch.randn(edges.n_edges, 3, generator=generator, dtype=torch.float64)

    def loss() -> Tensor:
        leaf = edges.vectors.clone().requires_grad_()
        energy = model(types[:4], edges, leaf).sum()
        (gradient,) = torch.autograd.grad(energy, leaf, create_graph=True)
        return (gradient - target).square().sum() + energy

    parameters = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(loss(), parameters, allow_unused=True, materialize_grads=True)
    directions = [
        torch.randn(p.shape, generator=generator, dtype=torch.float64) for p in parameters
    ]
    expected = sum(float((g * d).sum()) for g, d in zip(gradients, directions, strict=True))
    step, values = 1e-5, []
    for sign in (1, -2, 1):
        with torch.no_grad():
            for p, d in zip(parameters, directions, strict=True):
                p += sign * step * d
        values.append(float(loss().detach()))
    assert (values[0] - values[1]) / (2 * step) == pytest.approx(expected, rel=2e-6)
