"""What the command leaves to look at: a report at the end, also of a run that broke off."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import md_gie.engine
from md_gie.cli import main

Edit = Callable[..., Path]


def test_a_run_ends_with_a_report(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "argon.toml", "--steps", "40"]) == 0
    assert "report: argon.report.html" in capsys.readouterr().err
    text = (run_folder / "argon.report.html").read_text()
    body = text.split("<body>")[1]
    for word in ("Where the time went", "Neighbour list", "lists built in 40 steps", "Volume"):
        assert (word in body) == (word != "Volume")
    first = text.split('name="run"')[1][:60]
    assert main(["run", "argon.toml", "--resume"]) == 0
    text = (run_folder / "argon.report.html").read_text()
    assert text.split('name="run"')[1][:60] == first
    assert main(["run", "argon.toml", "--overwrite", "--steps", "20"]) == 0
    text = (run_folder / "argon.report.html").read_text()
    assert text.split('name="run"')[1][:60] != first


def test_no_report_if_not_wanted(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "argon.toml", "--steps", "4", "--no-report"]) == 0
    assert not (run_folder / "argon.report.html").exists()
    assert "report" not in capsys.readouterr().err


def test_other_files_are_spared_and_the_run_counts(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run_folder / "argon.report.html").write_text("mine")
    assert main(["run", "argon.toml", "--steps", "4"]) == 0
    assert "no report: argon.report.html exists" in capsys.readouterr().err
    assert (run_folder / "argon.report.html").read_text() == "mine"


def test_a_run_that_breaks_off_has_a_report(
    run_folder: Path,
    toy: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def load(model: str, **options: Any) -> Any:
        engine = toy.load_toy(model, **options)
        engine.poison_at = 30
        return engine

    monkeypatch.setattr(md_gie.engine, "load_potential", load)
    assert main(["run", "argon.toml"]) == 1
    assert "report: argon.report.html" in capsys.readouterr().err
    assert (run_folder / "argon.report.html").is_file()
