"""Reports as a browser shows them: everything is drawn, nothing is fetched, nothing is replaced."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from md_gie.errors import TrajectoryError
from md_gie.report import write_report

Make = Callable[..., Path]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
NEEDS_BROWSER = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
PLOTS = {
    "energy", "conserved", "temperature", "pressure", "rdf", "contacts", "msd", "timing",
}  # fmt: skip


@pytest.fixture(scope="module")
def report(make_trajectory: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(make_trajectory(tmp_path_factory.mktemp("report") / "water.h5md"))


def browse(folder: Path, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Show a page in a browser without a screen and without a network."""
    command = [
        str(CHROMIUM),
        "--headless=new",
        "--no-sandbox",
        "--use-angle=swiftshader",
        "--enable-unsafe-swiftshader",
        "--enable-logging=stderr",
        "--proxy-server=127.0.0.1:9",
        f"--user-data-dir={folder / 'profile'}",
        "--window-size=1100,900",
        "--virtual-time-budget=30000",
        *options,
        page.as_uri(),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=200)


@NEEDS_BROWSER
def test_a_browser_draws_everything_without_complaint(report: Path, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    shown = browse(tmp_path, report, "--dump-dom", f"--screenshot={picture}")
    console = re.findall(r"CONSOLE.*", shown.stderr)
    complaints = [line for line in console if re.search(r"Uncaught|Error|Refused|violates", line)]
    assert complaints == []
    found = re.search(r'<html[^>]* data-drawn="(\d+)"', shown.stdout)
    assert found is not None, "not everything was drawn"
    assert int(found[1]) == len(PLOTS) + 1
    for name in PLOTS:
        start = shown.stdout.index(f'id="plot-{name}"')
        plot = shown.stdout[start : shown.stdout.find("<section", start)]
        assert re.search(r'class="js-line" d="M.{40}|class="point"', plot), f"{name} is empty"
    assert_view_shows_oxygen(picture)


def assert_view_shows_oxygen(picture: Path) -> None:
    pixels = np.asarray(Image.open(picture).convert("RGB")).astype(int)
    red = (pixels[..., 0] > 120) & (pixels[..., 1] < 70) & (pixels[..., 2] < 70)
    assert red.sum() > 500


def test_the_file_stands_alone(report: Path) -> None:
    text = report.read_text()
    assert text.count("<script") == text.count("</script>") == 3
    tags = re.findall(r"<(?:script|link|img|iframe)\b[^>]*", text.split("<body>")[1])
    assert not [tag for tag in tags if "src=" in tag or "href=" in tag]
    assert "default-src 'none'" in text
    assert len(text) < 8e6


def test_text_from_files_is_no_markup(report: Path) -> None:
    text = report.read_text()
    assert "&lt;/script&gt;&lt;b&gt;water.h5md" in text
    assert "</script><b>" not in text


def test_provenance_is_told(report: Path) -> None:
    text = report.read_text()
    for word in ("water-s", "0" * 64, "cafe", "cpu (x86_64)", "nvt-langevin", "timestep_fs"):
        assert word in text


def test_an_earlier_report_of_the_run_is_replaced(make_trajectory: Make, tmp_path: Path) -> None:
    path = write_report(make_trajectory(tmp_path / "a.h5md", 3))
    assert path == tmp_path / "a.report.html"
    path.write_text(path.read_text().replace("nothing is loaded", "old"))
    assert write_report(tmp_path / "a.h5md") == path
    assert "old" not in path.read_text().split("</main>")[0].split("<footer>")[1]
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("kind", ["text", "other run"])
def test_other_files_are_not_overwritten(make_trajectory: Make, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.report.html"
    if kind == "text":
        path.write_text("years of work")
    else:
        write_report(make_trajectory(tmp_path / "b.h5md", 3, run_id="other"), path)
    before = path.read_bytes()
    trajectory = make_trajectory(tmp_path / "a.h5md", 3)
    with pytest.raises(TrajectoryError, match="it is not overwritten: name another file"):
        write_report(trajectory)
    assert path.read_bytes() == before
    if kind == "other run":
        write_report(trajectory, of_any_run=True)
    else:
        with pytest.raises(TrajectoryError, match="is no report of md_gie"):
            write_report(trajectory, of_any_run=True)
        write_report(trajectory, overwrite=True)
    assert path.read_bytes() != before


@pytest.mark.parametrize("count", [1, 2, 3, 25])
def test_short_runs_have_a_report(make_trajectory: Make, tmp_path: Path, count: int) -> None:
    text = write_report(make_trajectory(tmp_path / "a.h5md", count)).read_text()
    assert "NaN" not in text.split('id="data">')[1].split("</script>")[0]
    assert ("too few" in text.split("</head>")[1]) == (count < 25)
