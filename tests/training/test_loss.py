"""Forces as derivatives of the energy, and the loss as a twice differentiable function."""

import pytest
import torch
from torch.testing import assert_close

from md_gie.training.config import LossConfig
from md_gie.training.data import build_graphs, collate
from md_gie.training.loss import Prediction, energy_weight, predict, training_loss

CONFIG = LossConfig(energy_weight_start=1.0, energy_weight_end=100.0, force_weight=2.0)


def test_forces_are_the_negative_gradient(frames, pair_potential):
    model = pair_potential(dtype=torch.float64)
    device, step = torch.device("cpu"), 1e-4

    def outputs(frame):
        graph = build_graphs([frame], "OH", 4.0, device=device, dtype=torch.float64)
        return predict(model, collate(graph), create_graph=False)

    forces = outputs(frames[0]).forces
    for atom, axis in ((0, 0), (2, 1), (4, 2)):
        energies = []
        for sign in (1, -1):
            positions = frames[0].positions.copy()
            positions[atom, axis] += sign * step
            energies.append(outputs(frames[0]._replace(positions=positions)).energies.item())
        assert forces[atom, axis].item() == pytest.approx(
            -(energies[0] - energies[1]) / (2 * step), abs=1e-7
        )


def test_loss_gradient_matches_finite_differences(double_graphs, pair_potential):
    model = pair_potential(dtype=torch.float64)
    check_loss_gradient(model, [model.weight, model.bias], collate(double_graphs[:3]))


def check_loss_gradient(model, parameters, batch, n_directions=2):
    """Directional derivatives of the loss against central differences."""

    def value() -> torch.Tensor:
        prediction = predict(model, batch, create_graph=True)
        return training_loss(prediction, batch, CONFIG, weight=3.0)

    gradients = torch.autograd.grad(value(), parameters)
    generator = torch.Generator().manual_seed(1)
    step = 1e-5
    for parameter, gradient in zip(parameters, gradients, strict=True):
        for _ in range(n_directions):
            direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            values = []
            for sign in (1, -2, 1):  # forth, back, and home
                with torch.no_grad():
                    parameter.add_(direction, alpha=sign * step)
                values.append(value().item())
            expected = (values[0] - values[1]) / (2 * step)
            assert (gradient * direction).sum().item() == pytest.approx(
                expected, rel=1e-6, abs=1e-8
            )


def test_loss_weighs_components_and_energies_per_atom(double_graphs):
    batch = collate(double_graphs[:2])  # 5 and 6 atoms
    prediction = Prediction(
        batch.energies + torch.tensor([0.5, -1.2], dtype=torch.float64), batch.forces + 0.3
    )
    loss = training_loss(prediction, batch, CONFIG, weight=7.0)
    assert_close(loss.item(), 2.0 * 0.09 + 7.0 * (0.1**2 + 0.2**2) / 2)


def test_huber_bounds_the_pull_of_large_force_errors(double_graphs):
    batch = collate(double_graphs[:2])
    config = LossConfig(
        energy_weight_start=1.0, energy_weight_end=1.0, kind="huber", huber_delta_eV_A=0.1
    )

    def loss(error: float) -> float:
        prediction = Prediction(batch.energies, batch.forces + error)
        return training_loss(prediction, batch, config, weight=1.0).item()

    assert loss(0.05) == pytest.approx(0.05**2)
    assert loss(2.0) - loss(1.0) == pytest.approx(2 * 0.1)


def test_energy_weight_grows_geometrically():
    assert energy_weight(CONFIG, 0.0) == 1.0
    assert energy_weight(CONFIG, 0.5) == pytest.approx(10.0)
    assert energy_weight(CONFIG, 1.7) == pytest.approx(100.0)
