"""Learning rate over progress, and the running average of parameters."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from md_gie.training.config import OptimizerConfig
from md_gie.training.schedule import ParameterAverage, learning_rate


@pytest.mark.parametrize(("schedule", "halfway"), [("cosine", 0.505), ("exponential", 0.1)])
def test_rate_anneals_with_progress(schedule, halfway):
    config = OptimizerConfig(learning_rate=1.0, final_learning_rate=0.01, schedule=schedule)
    assert learning_rate(config, 10, 0.0) == pytest.approx(1.0)
    assert learning_rate(config, 10, 0.5) == pytest.approx(halfway)
    assert learning_rate(config, 10, 1.0) == pytest.approx(0.01)
    assert learning_rate(config, 10, 1.5) == pytest.approx(0.01)


def test_rate_warms_up_linearly():
    config = OptimizerConfig(learning_rate=2.0, final_learning_rate=2.0, warmup_steps=4)
    rates = [learning_rate(config, step, 0.0) for step in range(6)]
    assert rates == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]


def test_average_follows_the_recurrence_and_leaves_the_model_alone():
    model = nn.Linear(2, 1, bias=False).double()
    fixed = nn.Parameter(torch.ones(1), requires_grad=False)
    model.register_parameter("fixed", fixed)
    average = ParameterAverage(model, decay=0.15)
    expected = model.weight.detach().clone()
    for step, value in enumerate([1.0, -2.0, 5.0]):
        with torch.no_grad():
            model.weight.fill_(value)
        average.update(step)
        decay = min(0.15, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
    shadow = average.averaged(model)
    assert_close(shadow.weight.detach(), expected)
    assert not any(p.requires_grad for p in shadow.parameters())
    assert model.weight.tolist() == [[5.0, 5.0]]
    assert model.weight.requires_grad
    assert list(average.values) == ["weight"]
