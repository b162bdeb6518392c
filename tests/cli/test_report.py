"""``md-gie report`` from the command line."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from md_gie.trajectory import Frame, H5MDWriter, Observable, TrajectoryHeader, TrajectoryOptions


def report(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "md_gie", "report", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with ``a.h5md``, three frames of one water molecule without a cell."""
    header = TrajectoryHeader(np.array([8, 1, 1]), np.ones(3), (False,) * 3)
    options = TrajectoryOptions((Observable("temperature", "K"),), velocities=False, forces=False)
    places = np.array([[0.0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0]])
    with H5MDWriter.create(tmp_path / "a.h5md", header, options) as writer:
        for step in range(3):
            heat = {"temperature": 300.0 + step}
            writer.append(Frame(step, float(step), np.zeros((3, 3)), places, observables=heat))
    return tmp_path


def test_report_says_where_it_is(folder: Path) -> None:
    done = report("a.h5md", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "a.report.html\n", "")
    assert "<title>a.h5md</title>" in (folder / "a.report.html").read_text()
    done = report("a.h5md", "-o", "b.html", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "b.html\n")
    assert (folder / "b.html").is_file()


def test_mistakes_get_one_sentence(folder: Path) -> None:
    (folder / "a.report.html").write_text("mine")
    for arguments, message in (
        (["a.h5md"], "a.report.html exists and is no report of md_gie"),
        (["b.h5md"], "b.h5md: no such trajectory"),
        (["a.report.html"], "cannot be read as HDF5"),
        (["a.h5md", "-o", "nowhere/a.html"], "nowhere"),
    ):
        done = report(*arguments, cwd=folder)
        assert done.returncode == 2
        assert done.stdout == ""
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
    assert (folder / "a.report.html").read_text() == "mine"
    assert report("a.h5md", "--overwrite", cwd=folder).returncode == 0
