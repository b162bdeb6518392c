"""Training configurations: the bundled one, and messages for wrong ones."""

from pathlib import Path

import pytest

from md_gie.errors import ConfigError
from md_gie.training.config import read_config

BUNDLED = Path(__file__).parents[2] / "md_gie" / "models" / "water-s.toml"


def test_bundled_configuration_is_read():
    config = read_config(BUNDLED)
    assert config.model["type_map"] == ["O", "H"]
    assert config.data.train == ["../../data/water_dft/train.extxyz.gz"]
    assert config.run.max_minutes == 13.5
    assert config.as_dict()["run"]["name"] == "water-s"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "batch_size = 4", "batchsize = 4",
            r"water\.toml, \[run\]: unknown key batchsize; did you mean batch_size\? Keys of",
        ),
        ("[loss]", "[losses]", r"unknown key losses; did you mean loss\?"),
        ("batch_size = 4", "", r"\[run\]: key batch_size is missing"),
        ("batch_size = 4", "batch_size = 4.5", r"\[run\]: batch_size = 4.5; it must be an integer"),
        ("batch_size = 4", "batch_size = true", r"batch_size = True; it must be an integer"),
        ("tf32 = true", "tf32 = 1", r"tf32 = 1; it must be true or false"),
        ("batch_size = 4", "batch_size = 0", r"batch_size = 0; it must be positive"),
        ("learning_rate = 4e-3", "learning_rate = nan", r"rate = nan; it must be positive"),
        ("learning_rate = 4e-3", "learning_rate = '4e-3'", r"'4e-3'; it must be a number"),
        ('"cosine"', '"linear"', r"schedule = 'linear'; it must be 'cosine' or 'exponential'"),
        ("ema_decay = 0.999", "ema_decay = 1.0", r"ema_decay = 1.0; it must be at least 0"),
        ("[loss]", "loss = 3\n[rest]", r"water\.toml.*"),
        ("[run]", "[run", r"water\.toml: not a TOML file"),
        ('train = "../../data/water_dft/train.extxyz.gz"', "train = []", r"a path or a list"),
    ],
)  # fmt: skip
def test_wrong_configurations_are_refused(old, new, message, tmp_path):
    text = BUNDLED.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "water.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        read_config(path)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"absent\.toml: cannot be read"):
        read_config(tmp_path / "absent.toml")
