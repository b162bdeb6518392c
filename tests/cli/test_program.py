"""The command line: quick help, exit statuses, one sentence for a mistake, no traceback."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from md_gie.cli import main
from md_gie.trajectory import Frame, H5MDWriter, TrajectoryHeader, TrajectoryOptions

ROOT = Path(__file__).parent.parent.parent

Done = subprocess.CompletedProcess[str]


def md_gie(*arguments: str, cwd: Path | None = None) -> Done:
    """Run the program in a process of its own."""
    command = [sys.executable, "-m", "md_gie", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Call what the program calls, in this process, where PyTorch is loaded, and in a folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Done:
        status = main(arguments)
        return Done(arguments, status, *capsys.readouterr())

    return run


def check_mistake(done: Done, message: str) -> None:
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.rstrip("\n").count("\n") == 0
    assert message in done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    script = (
        "import sys\nfrom md_gie.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit as stop:\n    assert stop.code == 0\n"
        "heavy = {'torch', 'numpy', 'h5py', 'ase', 'tqdm'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "md-gie" in done.stdout


def test_help_names_the_commands() -> None:
    done = md_gie("--help")
    assert done.returncode == 0
    for word in ("run", "info", "train"):
        assert word in done.stdout
    assert md_gie().returncode == 2


@pytest.mark.parametrize(
    "arguments",
    [["run"], ["fly"], ["run", "a.toml", "--step", "3"], ["run", "a.toml", "--steps", "-1"]],
)
def test_wrong_arguments_end_with_two(arguments: list[str]) -> None:
    done = md_gie(*arguments)
    assert done.returncode == 2
    assert "usage: md-gie" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("steps", ["abc", "1.5", "", "-1", "9" * 5000])
def test_wrong_number_of_steps_is_named(steps: str) -> None:
    done = md_gie("run", "a.toml", f"--steps={steps}")
    assert done.returncode == 2
    assert f"argument --steps: '{steps[:60]}" in done.stderr
    assert "steps cannot be run; give an integer from 0" in done.stderr
    assert "_count" not in done.stderr


def test_missing_files_get_one_sentence(call: Callable[..., Done]) -> None:
    done = call("run", "nothing.toml")
    check_mistake(done, "md-gie: nothing.toml: no such configuration file")
    done = call("run", "nothing.toml", "--resume", "--overwrite")
    check_mistake(done, "md-gie: --resume goes on and --overwrite starts anew; give one")


def test_wrong_key_gets_one_sentence(tmp_path: Path, call: Callable[..., Done]) -> None:
    (tmp_path / "a.toml").write_text("[md]\ntimestep = 1\n")
    done = call("run", "a.toml")
    check_mistake(done, "[md] timestep: unknown key; did you mean timestep_fs?")


def test_missing_structure_gets_one_sentence(tmp_path: Path, call: Callable[..., Done]) -> None:
    text = (ROOT / "inputs/runs/water_nvt.toml").read_text()
    (tmp_path / "a.toml").write_text(text)
    done = call("run", "a.toml")
    check_mistake(done, "water64.extxyz")
    assert list(tmp_path.iterdir()) == [tmp_path / "a.toml"]


def test_info_describes_a_trajectory(tmp_path: Path, call: Callable[..., Done]) -> None:
    header = TrajectoryHeader(np.array([8, 1, 1]), np.ones(3), (True, True, False), {"model": "m"})
    options = TrajectoryOptions(velocities=False, forces=False)
    with H5MDWriter.create(tmp_path / "a.h5md", header, options) as writer:
        for step in (0, 50):
            writer.append(Frame(step, 0.5 * step, np.eye(3), np.zeros((3, 3))))
    done = call("info", "a.h5md")
    assert done.returncode == 0
    assert done.stderr == ""
    facts = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if line[0] != " ")
    assert facts["frames"] == "2"
    assert facts["steps"] == "0 to 50"
    assert facts["time"] == "0 to 0.025 ps"
    assert facts["atoms"] == "3 (2 H, 1 O), periodic TTF"
    assert facts["model"] == "m"


def test_info_describes_a_model(tmp_path: Path, call: Callable[..., Done]) -> None:
    done = call("info", "water-s")
    assert (done.returncode, done.stderr) == (0, "")
    facts = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert facts["elements"] == "O H"
    assert facts["cutoff"] == "5 Å"
    (tmp_path / "a.pt").write_text("text")
    check_mistake(call("info", "a.pt"), "a.pt")
    (tmp_path / "a.extxyz").write_text("text")
    check_mistake(call("info", "a.extxyz"), "cannot be read as a trajectory")


def test_info_of_nothing_gets_one_sentence(call: Callable[..., Done]) -> None:
    check_mistake(call("info", "nothing"), "nothing")


def test_run_script_is_the_run_command(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts/run_md.py"), "nothing.toml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    check_mistake(done, "md-gie: nothing.toml: no such configuration file")
