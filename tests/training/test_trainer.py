"""The training loop: it learns, stops, resumes bit for bit, and records what it did."""

import json
import time

import pytest
import torch

from md_gie.errors import CheckpointError, SimulationError
from md_gie.training import trainer as trainer_module
from md_gie.training.metrics import evaluate
from md_gie.training.state import read_state
from md_gie.training.trainer import Trainer


@pytest.fixture
def make(graphs, pair_potential, settings, tmp_path):
    def trainer(folder: str = "out", seed: int = 0, **run: object) -> Trainer:
        lines: list[str] = []
        return Trainer(
            pair_potential(seed), graphs[:7], graphs[7:], settings(**run), tmp_path / folder,
            report=lines.append,
        )  # fmt: skip

    return trainer


def records(trainer: Trainer) -> list[dict]:
    return [json.loads(line) for line in trainer._record_path.read_text().splitlines()]


def test_errors_decrease_and_are_recorded(make):
    trainer = make(steps=300, log_every=100, validate_every=100)
    before = trainer.validate()
    after = trainer.run()
    assert after.force_rmse < 0.5 * before.force_rmse
    assert after.energy_rmse < 0.8 * before.energy_rmse
    kinds = [(r["kind"], r["step"]) for r in records(trainer)]
    assert kinds == [
        ("valid", 0), ("train", 100), ("valid", 100), ("train", 200), ("valid", 200),
        ("train", 300), ("valid", 300),
    ]  # fmt: skip
    assert records(trainer)[-1]["force_rmse_meV_A"] == after.force_rmse


def test_resumed_run_is_the_uninterrupted_run_bit_for_bit(make):
    whole = make("whole")
    whole.run()
    first = make("parts")
    while first.step < 20:  # the state of step 20 is written, then five steps are lost
        first._update(first.progress)
        if first.step == 20:
            first.write_state()
    for _ in range(5):
        first._update(first.progress)
    first._log_training(first.progress)
    second = make("parts", seed=9)  # other initial parameters, which the state replaces
    second.resume()
    assert second.step == 20
    second.run()
    a, b = read_state(whole._state_path), read_state(second._state_path)
    assert a.step == b.step == 30
    for name in a.model:
        assert torch.equal(a.model[name], b.model[name])
        assert torch.equal(a.average[name], b.average[name])
    assert whole.validate() == second.validate()
    assert [r["step"] for r in records(second) if r["kind"] == "train"] == [25, 30]


def test_resume_refuses_other_settings_and_missing_or_damaged_states(make, tmp_path):
    make().run()
    with pytest.raises(CheckpointError, match=r"other settings \(run.batch_size, run.steps\)"):
        make(batch_size=2, steps=31).resume()
    with pytest.raises(CheckpointError, match="no training state"):
        make("elsewhere").resume()
    path = tmp_path / "out" / "tiny.state.pt"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(CheckpointError, match="not a readable training state"):
        make().resume()
    torch.save({"model": {}}, path)
    with pytest.raises(CheckpointError, match="not a training state"):
        make().resume()


def test_wall_time_bounds_the_run_and_anneals_it(make, monkeypatch):
    clock = iter(range(10_000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    trainer = make(steps=100_000, max_minutes=2.0, log_every=1)
    trainer.run()
    assert trainer.progress >= 1.0
    assert 5 < trainer.step < 120
    train = [r for r in records(trainer) if r["kind"] == "train"]
    assert train[-1]["learning_rate"] < 0.0015
    assert train[-1]["progress"] > 0.9


def test_paused_run_keeps_its_place_in_time(make, monkeypatch):
    clock = iter(range(100_000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    first = make(steps=100_000, max_minutes=5.0)
    first.run(pause_minutes=1.0)
    assert 0.2 < first.progress < 0.6
    second = make(steps=100_000, max_minutes=5.0)
    second.resume()
    assert second.progress >= 0.2
    second.run()
    assert second.progress >= 1.0
    assert second.step > first.step


def test_averaged_model_is_validated_and_the_model_goes_on_unchanged(make, graphs):
    trainer = make(steps=10)
    trainer.run()
    before = [p.clone() for p in trainer.model.parameters()]
    errors = trainer.validate()
    assert errors == evaluate(trainer.averaged_model(), graphs[7:], 3)
    assert errors != evaluate(trainer.model, graphs[7:], 3)
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True))
    assert not torch.equal(trainer.averaged_model().weight, trainer.model.weight)


def test_fixed_parameters_stay_and_matrices_alone_decay(make):
    trainer = make(steps=5)
    decays = {
        id(p): group["weight_decay"]
        for group in trainer._optimizer.param_groups
        for p in group["params"]
    }
    model = trainer.model
    assert decays == {id(model.weight): 0.01, id(model.bias): 0.0}
    trainer.run()
    assert model.out_bias.tolist() == [-3.0, -1.0]


def test_divergence_stops_the_run(make):
    trainer = make()
    with torch.no_grad():
        trainer.model.weight.fill_(float("nan"))
    with pytest.raises(SimulationError, match="no longer finite at step 5; lower"):
        trainer.run()


def test_matmul_precision_is_given_back(make, monkeypatch):
    seen = []
    before = torch.get_float32_matmul_precision()
    original = trainer_module.predict

    def spy(*args, **kwargs):
        seen.append(torch.get_float32_matmul_precision())
        return original(*args, **kwargs)

    monkeypatch.setattr(trainer_module, "predict", spy)
    make(tf32=True, steps=2).run()
    assert seen == ["high", "high"]
    assert torch.get_float32_matmul_precision() == before


def test_a_batch_that_overflows_is_left_out_and_counted(make):
    trainer = make(steps=10, log_every=2)
    before = [p.clone() for p in trainer._parameters]
    broken = trainer._train[0]._replace(forces=trainer._train[0].forces * float("nan"))
    trainer._train = [broken] * 7
    trainer._update(0.1)
    # What moves them is the decay of AdamW alone.
    for old, new in zip(before, trainer._parameters, strict=True):
        torch.testing.assert_close(new, old, rtol=1e-3, atol=0.0)
    assert trainer._sums.n_bad() == 1


def test_a_diverging_run_stops_at_its_next_validation(make):
    trainer = make(steps=30)
    trainer.validate()
    with torch.no_grad():
        for value in trainer._average.values.values():
            value.fill_(float("nan"))
    with pytest.raises(SimulationError, match=r"lower optimizer\.learning_rate"):
        trainer.validate()
