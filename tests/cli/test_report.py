"""``md-gie report`` from the command line."""

from pathlib import Path

import numpy as np
import pytest

from md_gie.cli import main
from md_gie.trajectory import Frame, H5MDWriter, Observable, TrajectoryHeader, TrajectoryOptions


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with ``a.h5md``, three frames of one water molecule without a cell."""
    header = TrajectoryHeader(np.array([8, 1, 1]), np.ones(3), (False,) * 3)
    options = TrajectoryOptions((Observable("temperature", "K"),), velocities=False, forces=False)
    places = np.array([[0.0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0]])
    with H5MDWriter.create(tmp_path / "a.h5md", header, options) as writer:
        for step in range(3):
            heat = {"temperature": 300.0 + step}
            writer.append(Frame(step, float(step), np.zeros((3, 3)), places, observables=heat))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_report_says_where_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "a.h5md"]) == 0
    assert capsys.readouterr() == ("a.report.html\n", "")
    assert "<title>a.h5md</title>" in (folder / "a.report.html").read_text()
    assert main(["report", "a.h5md", "-o", "b.html"]) == 0
    assert capsys.readouterr().out == "b.html\n"
    assert (folder / "b.html").is_file()


def test_mistakes_get_one_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.report.html").write_text("mine")
    for arguments, message in (
        (["a.h5md"], "a.report.html exists and is no report of md_gie"),
        (["b.h5md"], "b.h5md: no such trajectory"),
        (["a.report.html"], "cannot be read as HDF5"),
        (["a.h5md", "-o", "nowhere/a.html"], "nowhere"),
    ):
        assert main(["report", *arguments]) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert message in shown.err
        assert shown.err.count("\n") == 1
    assert (folder / "a.report.html").read_text() == "mine"
    assert main(["report", "a.h5md", "--overwrite"]) == 0
