"""What is told of a model agrees with the engine that it makes."""

import hashlib
from pathlib import Path

import pytest

from md_gie.engine import load_potential
from md_gie.engine.describe import describe_model
from md_gie.errors import CheckpointError

MODELS = Path(__file__).parents[1] / "data" / "dpa4"


@pytest.mark.parametrize("model", ["water-s", "p0_smoke", "p1_zero_block"])
def test_facts_are_those_of_the_engine(model: str) -> None:
    source = model if model == "water-s" else str(MODELS / f"{model}.pt")
    facts = dict(line.split(maxsplit=1) for line in describe_model(source).splitlines())
    engine = load_potential(source, device="cpu")
    assert facts["model"] == engine.name
    assert facts["elements"].split() == list(engine.species)
    assert facts["cutoff"] == f"{engine.cutoff:g} Å"
    assert facts["sha256"] == hashlib.sha256(Path(facts["file"]).read_bytes()).hexdigest()
    n_blocks = int(facts["blocks"].split(":")[0])
    assert len(facts["degrees"].split("(")[0].split()) == (n_blocks or 1)
    assert f"up to {engine.cutoff * (n_blocks + 1):g} Å away" in facts["blocks"]


def test_no_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="it is not a bundled model"):
        describe_model("nothing")
    (tmp_path / "a.pt").write_text("text")
    with pytest.raises(CheckpointError):
        describe_model(tmp_path / "a.pt")
