"""train_from_config with real DPA4 models, from file to checkpoint."""

import pytest
import torch

from md_gie.errors import ConfigError
from md_gie.model import DPA4, DPA4Config, read_checkpoint
from md_gie.training import train_from_config
from md_gie.training.config import LossConfig
from md_gie.training.data import collate
from md_gie.training.initialize import initialize
from md_gie.training.loss import predict, training_loss
from md_gie.training.metrics import evaluate
from md_gie.training.state import read_state

CONFIG = """
[data]
train = "frames.extxyz"
valid = ["valid.extxyz"]

[model]
type = "dpa4"
type_map = ["O", "H"]
[model.descriptor]
type = "dpa4"
rcut = 4.0
channels = 8
n_radial = 4
lmax = 2
n_blocks = 1
mixing_layers = 2
edge_norm = false
message_node_so3 = true
ffn_so3_grid = true
grid_branch = [0, 0, 1]
so3_readout = "mlp"
[model.fitting_net]
type = "dpa4_ener"

[loss]
energy_weight_start = 1.0
energy_weight_end = 10.0

[optimizer]
learning_rate = 0.01
final_learning_rate = 0.001
warmup_steps = 2

[run]
name = "tiny"
output_dir = "out"
steps = 6
batch_size = 3
device = "cpu"
log_every = 3
checkpoint_every = 3
"""


@pytest.fixture
def folder(tmp_path, frames, write_xyz):
    write_xyz(tmp_path / "frames.extxyz", frames[:7])
    write_xyz(tmp_path / "valid.extxyz", frames[7:])
    (tmp_path / "tiny.toml").write_text(CONFIG)
    return tmp_path


def train(folder, **options):
    return train_from_config(folder / "tiny.toml", report=lambda line: None, **options)


def test_writes_a_checkpoint_that_gives_the_reported_errors(folder, graphs):
    result = train(folder)
    assert result.finished
    assert result.model_path == folder / "out" / "tiny.pt"
    config, parameters = read_checkpoint(result.model_path)
    model = DPA4(config)
    model.load_state_dict(parameters)
    errors = evaluate(model.requires_grad_(False).eval(), graphs[7:], 3)
    for got, expected in zip(errors, result.errors, strict=True):
        assert got == pytest.approx(expected, rel=1e-3)


def test_learns(folder):
    text = CONFIG.replace("steps = 6", "steps = 60").replace("_every = 3", "_every = 5")
    (folder / "tiny.toml").write_text(text)
    lines: list[str] = []
    train_from_config(folder / "tiny.toml", report=lines.append)
    errors = [float(line.split()[4]) for line in lines if line.endswith("train")]
    assert errors[-1] < 0.6 * errors[0]


def test_killed_and_resumed_run_is_the_uninterrupted_run_bit_for_bit(folder):
    (folder / "tiny.toml").write_text(CONFIG.replace("log_every = 3", "log_every = 1"))

    def kill(line: str) -> None:
        if line.split()[0] == "5":
            raise KeyboardInterrupt

    train(folder, output_dir=folder / "whole")
    parts = folder / "parts"
    with pytest.raises(KeyboardInterrupt):
        train_from_config(folder / "tiny.toml", output_dir=parts, report=kill)
    assert read_state(parts / "tiny.state.pt").step == 3
    assert train(folder, output_dir=parts, resume=True).finished
    a, b = (read_checkpoint(folder / name / "tiny.pt")[1] for name in ("whole", "parts"))
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_starts_from_a_checkpoint_of_the_same_options(folder):
    first = train(folder).model_path
    more = CONFIG.replace("steps = 6", f'steps = 1\nstart_from = "{first.name}"')
    (folder / first.name).write_bytes(first.read_bytes())
    # With a rate of almost zero the one step that is made changes nothing.
    more = more.replace("learning_rate = 0.01", "learning_rate = 1e-12")
    (folder / "tiny.toml").write_text(
        more.replace("final_learning_rate = 0.001", "final_learning_rate = 1e-13")
    )
    second = train(folder, output_dir=folder / "second").model_path
    before, after = (read_checkpoint(path)[1] for path in (first, second))
    assert all(torch.allclose(after[name], before[name], atol=1e-6) for name in before)
    (folder / "tiny.toml").write_text(more.replace("channels = 8", "channels = 12"))
    with pytest.raises(ConfigError, match=r"start_from: .*tiny\.pt has another parameter"):
        train(folder, output_dir=folder / "third")


def test_paused_run_is_not_finished(folder):
    assert not train(folder, pause_minutes=1e-9).finished
    assert train(folder, resume=True).finished


def test_refuses_to_overwrite_a_run_and_a_batch_larger_than_the_data(folder):
    train(folder)
    with pytest.raises(ConfigError, match=r"tiny\.state\.pt exists already; resume"):
        train(folder)
    (folder / "tiny.toml").write_text(CONFIG.replace("batch_size = 3", "batch_size = 8"))
    with pytest.raises(ConfigError, match="batch_size = 8; there are 7 training frames"):
        train(folder, output_dir=folder / "other")


def test_second_derivatives_of_a_real_model(double_graphs):
    config = DPA4Config.from_model_params(
        {
            "type_map": ["O", "H"],
            "descriptor": {
                "rcut": 4.0, "channels": 8, "n_radial": 4, "lmax": 2, "n_blocks": 1,
                "mixing_layers": 2, "edge_norm": False, "message_node_so3": True,
                "ffn_so3_grid": True, "grid_branch": [0, 0, 1], "so3_readout": "mlp",
            },
            "fitting_net": {"type": "dpa4_ener"},
        }
    )  # fmt: skip
    model = DPA4(config, dtype=torch.float64).train()
    initialize(model, config, seed=2)
    batch = collate(double_graphs[:2])
    loss_config = LossConfig(energy_weight_start=1.0, energy_weight_end=1.0)
    parameters = [p for n, p in model.named_parameters() if "bias" not in n and "router" not in n]

    def loss() -> torch.Tensor:
        return training_loss(predict(model, batch, create_graph=True), batch, loss_config, 1.0)

    gradients = torch.autograd.grad(loss(), parameters)
    generator = torch.Generator().manual_seed(0)
    directions = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in parameters]
    step, values = 1e-6, []
    for sign in (1, -2):
        with torch.no_grad():
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter.add_(direction, alpha=sign * step)
        values.append(loss().item())
    expected = (values[0] - values[1]) / (2 * step)
    got = sum((g * d).sum().item() for g, d in zip(gradients, directions, strict=True))
    assert got == pytest.approx(expected, rel=1e-6)
