"""Checkpoint files: what is read, what is refused and how, and writing."""

import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from md_gie.errors import CheckpointError
from md_gie.model import DPA4, load_model, read_checkpoint, write_checkpoint

Content = dict[str, Any]
PREFIX = "model.Default.atomic_model."


@pytest.fixture
def content(data: Path) -> Content:
    """The smoke checkpoint's state, to be altered."""
    loaded: Content = torch.load(data / "p0_smoke.pt", weights_only=True)
    return loaded


@pytest.fixture
def save(tmp_path: Path) -> Callable[[Any], Path]:
    def write(content: Any) -> Path:
        torch.save(content, tmp_path / "altered.pt")
        return tmp_path / "altered.pt"

    return write


def same_state(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("name", ["p0_smoke", "p1_version10", "p1_heads_pyramid", "p1_noenv"])
def test_round_trip_is_bit_equal(name: str, data: Path, tmp_path: Path) -> None:
    config, state = read_checkpoint(data / f"{name}.pt")
    write_checkpoint(tmp_path / "again.pt", load_model(data / f"{name}.pt"))
    again, restored = read_checkpoint(tmp_path / "again.pt")
    assert again == config
    assert same_state(state, restored)
    assert [path.name for path in tmp_path.iterdir()] == ["again.pt"]
    stored = torch.load(tmp_path / "again.pt", weights_only=True)["model"]
    params = stored["_extra_state"]["model_params"]
    assert (
        params
        == torch.load(data / f"{name}.pt", weights_only=True)["model"]["_extra_state"][
            "model_params"
        ]
        or name == "p1_version10"
    )
    assert (PREFIX + "descriptor.version_tensor" in stored) == (config.version > 1.0)


def test_written_files_carry_what_other_readers_ask_for(
    make_model: Callable[..., DPA4], tmp_path: Path
) -> None:
    write_checkpoint(tmp_path / "new.pt", make_model())
    stored = torch.load(tmp_path / "new.pt", weights_only=True)["model"]
    params = stored["_extra_state"]["model_params"]
    assert params["type"] == params["descriptor"]["type"] == "dpa4"
    assert params["fitting_net"]["type"] == "dpa4_ener"
    assert params["descriptor"]["sel"] == 256
    assert params["descriptor"]["rcut"] == 4.0
    chosen = make_model(sel=40).config.model_params()
    assert chosen["descriptor"]["sel"] == 40


def test_optimizer_and_average_are_ignored(content: Content, save: Any, data: Path) -> None:
    shadow = {
        key.removeprefix("model.Default."): value + 1.0
        for key, value in content["model"].items()
        if isinstance(value, torch.Tensor) and value.is_floating_point()
    }
    content["optimizer"] = {"state": {0: {"step": 7}}, "param_groups": []}
    content["ema"] = {"decay": 0.99, "model": shadow, "validation_state": {}}
    assert same_state(read_checkpoint(save(content))[1], read_checkpoint(data / "p0_smoke.pt")[1])


def test_unwrapped_state_is_read(content: Content, save: Any, data: Path) -> None:
    unwrapped = read_checkpoint(save(content["model"]))[1]
    assert same_state(unwrapped, read_checkpoint(data / "p0_smoke.pt")[1])


@pytest.fixture
def two_branches(content: Content) -> Content:
    """Branches A and B with equal options; the parameters of B are twice those of A."""
    state = content["model"]
    extra = state.pop("_extra_state")
    params = extra["model_params"]
    model: Content = {"_extra_state": {"model_params": {"model_dict": {"A": params, "B": params}}}}
    for key, value in state.items():
        for branch, factor in (("A", 1), ("B", 2)):
            scaled = key.endswith(("weight", "matrix"))
            model[key.replace("Default", branch)] = value * factor if scaled else value
    return {"model": model}


def test_branches(two_branches: Content, save: Any, data: Path) -> None:
    path = save(two_branches)
    expected = read_checkpoint(data / "p0_smoke.pt")[1]
    assert same_state(read_checkpoint(path, "A")[1], expected)
    name = "fitting_net.filter_layers.networks.0.output_layer.matrix"
    assert torch.equal(read_checkpoint(path, "B")[1][name], 2 * expected[name])
    with pytest.raises(CheckpointError, match="no branch was given; choose from: A, B"):
        read_checkpoint(path)
    with pytest.raises(CheckpointError, match="there is no branch 'C'; choose from: A, B"):
        read_checkpoint(path, "C")


def test_the_only_branch_needs_no_name(two_branches: Content, save: Any, data: Path) -> None:
    model = two_branches["model"]
    del model["_extra_state"]["model_params"]["model_dict"]["B"]
    for key in [key for key in model if key.startswith("model.B.")]:
        del model[key]
    read = read_checkpoint(save(two_branches))[1]
    assert same_state(read, read_checkpoint(data / "p0_smoke.pt")[1])


def test_a_branch_of_a_file_without_branches(data: Path) -> None:
    with pytest.raises(CheckpointError, match="has one model and no branch 'A'; leave branch out"):
        read_checkpoint(data / "p0_smoke.pt", "A")


def test_number_of_radial_functions_is_the_stored_one(content: Content, save: Any) -> None:
    params = content["model"]["_extra_state"]["model_params"]
    del params["descriptor"]["n_radial"]
    assert read_checkpoint(save(content))[0].n_radial == 6


class Malicious:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


def test_code_in_a_file_is_not_run(content: Content, tmp_path: Path, save: Any) -> None:
    mark = tmp_path / "mark"
    content["model"]["_extra_state"]["train_infos"] = Malicious(mark)
    with pytest.raises(CheckpointError, match="carries code that md_gie does not run"):
        read_checkpoint(save(content))
    bare = tmp_path / "bare.pt"
    bare.write_bytes(pickle.dumps(Malicious(mark)))
    with pytest.raises(CheckpointError, match="cannot be read as a checkpoint"):
        read_checkpoint(bare)
    assert not mark.exists()
    # The trap works: without the guard it is sprung.
    pickle.loads(bare.read_bytes())
    assert mark.exists()


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no model file"):
        read_checkpoint(tmp_path / "none.pt")


@pytest.mark.parametrize("kept", [0, 1, 3, 100, 5_000, 0.5, 0.9, 0.999])
def test_truncated_files(kept: float, data: Path, tmp_path: Path) -> None:
    whole = (data / "p0_smoke.pt").read_bytes()
    path = tmp_path / "cut.pt"
    path.write_bytes(whole[: int(kept if kept >= 1 else kept * len(whole))])
    with pytest.raises(CheckpointError, match=r"cut\.pt cannot be read as a checkpoint"):
        read_checkpoint(path)


def test_altered_numbers(data: Path, tmp_path: Path) -> None:
    whole = bytearray((data / "p0_smoke.pt").read_bytes())
    path = tmp_path / "altered.pt"
    with zipfile.ZipFile(data / "p0_smoke.pt") as archive:
        largest = max(archive.infolist(), key=lambda entry: entry.file_size)
    whole[largest.header_offset + 1000] ^= 1
    path.write_bytes(whole)
    with pytest.raises(CheckpointError, match="bad checksum of"):
        read_checkpoint(path)


def test_foreign_files(tmp_path: Path) -> None:
    text, archive, array = (tmp_path / f"foreign.{kind}" for kind in ("txt", "zip", "npz"))
    text.write_text("H 0 0 0\nO 0 0 1\n" * 20, encoding="utf-8")
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("readme.txt", "not a model")
    np.savez(array, x=np.zeros(3))
    random = tmp_path / "random.pt"
    random.write_bytes(np.random.default_rng(0).bytes(4096))
    for path in (text, archive, array, random):
        with pytest.raises(CheckpointError, match=f"{path.name} cannot be read as a checkpoint"):
            read_checkpoint(path)


@pytest.mark.parametrize(
    "foreign",
    [
        [1, 2, 3],
        torch.zeros(3),
        {"layer.weight": torch.zeros(2, 2)},
        {"model": {"layer.weight": torch.zeros(2)}},
        {"model": 5},
        {3: 4},
        {"model": {"_extra_state": None}},
        {"model": {"_extra_state": {"model_params": [1]}}},
    ],
    ids=str,
)
def test_foreign_contents(foreign: Any, save: Any) -> None:
    with pytest.raises(CheckpointError, match="it is not a DPA4"):
        read_checkpoint(save(foreign))


def test_not_finite_parameters(content: Content, save: Any) -> None:
    name = "descriptor.blocks.0.so2_conv.pre_focus_mix.weight"
    content["model"][PREFIX + name][0, 1, 2] = float("nan")
    with pytest.raises(CheckpointError, match=f"1 of 512 numbers in '{name}' are not finite"):
        read_checkpoint(save(content))


def test_missing_parameter(content: Content, save: Any) -> None:
    del content["model"][PREFIX + "descriptor.film_scale_strength_log"]
    with pytest.raises(
        CheckpointError, match=r"lacks 1 of \d+ parameters, the first is 'descriptor.film_scale"
    ):
        read_checkpoint(save(content))


@pytest.mark.parametrize(
    "key",
    [
        "descriptor.spin_embedding.weight",
        "descriptor.charge_spin_embedding.weight",
        "dens_fitting_net.matrix",
        "descriptor.blocks.0.so2_conv.pre_focus_mix.lora_a",
        "descriptor.blocks.1.so2_conv.pre_focus_mix.weight",
        "fitting_net.case_film.matrix",
        "descriptor.blocks.0.so2_conv.bias0",
    ],
)
def test_unknown_parameter(key: str, content: Content, save: Any) -> None:
    content["model"][PREFIX + key] = torch.zeros(2)
    with pytest.raises(CheckpointError, match=f"{key}' that its options do not announce"):
        read_checkpoint(save(content))


def test_key_outside_of_the_branch(content: Content, save: Any) -> None:
    content["model"]["stray"] = torch.zeros(1)
    with pytest.raises(CheckpointError, match=r"'stray' outside of model.Default"):
        read_checkpoint(save(content))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.zeros(2, 16, 17), r"has shape \(2, 16, 17\), its options ask for \(2, 16, 16\)"),
        (torch.zeros(2, 16, 16, dtype=torch.int64), "is not a floating-point tensor"),
        (torch.zeros(2, 16, 16, dtype=torch.bfloat16), "is torch.bfloat16; md_gie takes float32"),
        ("text", "is not a floating-point tensor"),
    ],
)
def test_wrong_parameter(value: Any, message: str, content: Content, save: Any) -> None:
    content["model"][PREFIX + "descriptor.blocks.0.so2_conv.pre_focus_mix.weight"] = value
    with pytest.raises(CheckpointError, match=message):
        read_checkpoint(save(content))


@pytest.mark.parametrize("version", [0.9, 1.3, float("nan"), [1.1, 1.2], "new"])
def test_unknown_versions(version: Any, content: Content, save: Any) -> None:
    value = version if isinstance(version, str) else torch.tensor(version)
    content["model"][PREFIX + "descriptor.version_tensor"] = value
    with pytest.raises(CheckpointError, match="version"):
        read_checkpoint(save(content))


def test_more_rows_of_energy_shifts_belong_to_other_outputs(
    content: Content, save: Any, data: Path
) -> None:
    name = PREFIX + "out_bias"
    content["model"][name] = torch.cat([content["model"][name], torch.ones(1, 3, 1).double()])
    assert same_state(read_checkpoint(save(content))[1], read_checkpoint(data / "p0_smoke.pt")[1])
