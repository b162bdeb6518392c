"""Relaxations: minima are found, limits are honest, files are spared."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ase.io
import numpy as np
import pytest
from ase import Atoms
from ase.constraints import FixAtoms

from md_gie import GIECalculator
from md_gie.errors import ConfigError
from md_gie.relax import RelaxConfig, RelaxOutcome, relax_from_config
from md_gie.units import EV_A3_GPA

# A potential with minima, and one that knows carbon and is quick where any surface will do.
WATER = "water-s"
RANDOM = Path(__file__).parents[1] / "data" / "dpa4" / "p1_version10.pt"
CONFIG = """
[model]
name = "{model}"
device = "cpu"
dtype = "{dtype}"

[structure]
file = "start.extxyz"

[relax]
max_force_eV_A = {limit}
max_steps = {steps}
{more}

[output]
structure = "end.extxyz"
trajectory = "steps.extxyz"
"""
Relax = Callable[..., tuple[RelaxOutcome, str]]


@pytest.fixture
def start() -> Atoms:
    """A stretched water molecule in a box."""
    atoms = Atoms("OHH", cell=[9.0, 9.0, 9.0], pbc=True)
    atoms.positions = [[0.0, 0.0, 0.0], [1.05, 0.0, 0.1], [-0.3, 0.95, 0.0]]
    return atoms


@pytest.fixture
def relax(tmp_path: Path, start: Atoms, monkeypatch: pytest.MonkeyPatch) -> Relax:
    """Relax with some settings, and return the outcome and what was printed."""
    monkeypatch.chdir(tmp_path)

    def run(
        atoms: Atoms = start,
        *,
        limit: float = 0.01,
        steps: int = 200,
        dtype: str = "float64",
        more: str = "",
        model: str | Path = WATER,
        **options: Any,
    ) -> tuple[RelaxOutcome, str]:
        ase.io.write("start.extxyz", atoms)
        text = CONFIG.format(model=model, dtype=dtype, limit=limit, steps=steps, more=more)
        Path("relax.toml").write_text(text)
        stdout = io.StringIO()
        outcome = relax_from_config("relax.toml", stdout=stdout, **options)
        return outcome, stdout.getvalue()

    return run


def forces_of(path: str) -> np.ndarray:
    atoms = ase.io.read(path)
    atoms.calc = GIECalculator(WATER, device="cpu", dtype="float64")
    forces: np.ndarray = atoms.get_forces()
    return forces


@pytest.mark.parametrize("optimizer", ["lbfgs", "bfgs", "fire"])
def test_forces_end_below_the_limit(relax: Relax, start: Atoms, optimizer: str) -> None:
    outcome, text = relax(limit=0.02, more=f'optimizer = "{optimizer}"')
    assert outcome.ending == "converged"
    assert np.linalg.norm(forces_of("end.extxyz"), axis=1).max() <= 0.02
    start.calc = GIECalculator(WATER, device="cpu", dtype="float64")
    assert outcome.energy_eV < start.get_potential_energy()
    steps = ase.io.read("steps.extxyz", ":")
    assert len(steps) == outcome.steps + 1
    np.testing.assert_allclose(steps[0].positions, start.positions, atol=1e-7)
    assert "converged after" in text
    assert text.count("\n") == outcome.steps + 3


def test_steps_run_out(relax: Relax) -> None:
    outcome, text = relax(limit=1e-6, steps=3)
    assert (outcome.ending, outcome.steps) == ("steps", 3)
    assert "not converged after 3 steps" in text
    assert outcome.max_force_eV_A > 1e-6
    assert Path("end.extxyz").is_file()


def test_float32_says_where_it_ends(relax: Relax) -> None:
    outcome, text = relax(limit=1e-9, dtype="float32")
    assert outcome.ending == "noise"
    assert 0 < outcome.max_force_eV_A <= outcome.noise.force_eV_A
    assert 'take [model] dtype = "float64"' in text
    assert outcome.steps < 200


def test_float32_converges_where_it_can(relax: Relax) -> None:
    outcome, _ = relax(limit=0.02, dtype="float32")
    assert outcome.ending == "converged"
    assert np.linalg.norm(forces_of("end.extxyz"), axis=1).max() <= 0.02
    assert 0 < outcome.noise.force_eV_A < 1e-3


@pytest.mark.parametrize("cell", ["volume", "full"])
def test_the_cell_ends_under_the_pressure(relax: Relax, cell: str) -> None:
    atoms = Atoms("OHOH", cell=np.eye(3) * 3.6, pbc=True)
    atoms.positions = [[0, 0, 0], [0, 0, 1.8], [1.7, 1.9, 0], [1.8, 1.8, 1.7]]
    more = f'cell = "{cell}"\npressure_GPa = 2\nmax_stress_GPa = 0.5'
    outcome, text = relax(atoms, limit=0.5, steps=300, more=more, model=RANDOM)
    assert outcome.ending == "converged", text
    end = ase.io.read("end.extxyz")
    end.calc = GIECalculator(RANDOM, device="cpu", dtype="float64")
    stress = end.get_stress(voigt=False) * EV_A3_GPA
    rest = stress + 2 * np.eye(3)
    if cell == "volume":
        assert abs(rest.trace() / 3) <= 0.5
        np.testing.assert_allclose(end.cell.array / end.cell[0, 0], np.eye(3), atol=1e-9)
    else:
        assert np.abs(rest).max() <= 0.5
    assert end.get_volume() != pytest.approx(atoms.get_volume(), rel=1e-4)


def test_fixed_atoms_stay(relax: Relax, start: Atoms) -> None:
    start.set_constraint(FixAtoms([0, 2]))
    outcome, _ = relax(limit=0.02)
    assert outcome.ending == "converged"
    end = ase.io.read("end.extxyz")
    np.testing.assert_allclose(end.positions[[0, 2]], start.positions[[0, 2]], atol=1e-8)
    assert np.abs(end.positions[1] - start.positions[1]).max() > 1e-3


def test_files_are_not_overwritten_unasked(relax: Relax) -> None:
    relax(limit=10.0)
    before = Path("end.extxyz").read_bytes()
    with pytest.raises(ConfigError, match=r"end.extxyz exists; replace it with --overwrite"):
        relax(limit=10.0)
    assert Path("end.extxyz").read_bytes() == before
    relax(limit=10.0, overwrite=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("max_force_eV_A", "fmax_eV_A"), "unknown key.*did you mean max_force_eV_A"),
        (("end.extxyz", "end.nonsense"), r"ASE writes no format with the ending of end.nonsense"),
        (("steps.extxyz", "steps.gen"), r"writes several structures in no format.*steps.gen"),
        (("end.extxyz", "start.extxyz"), "is an input; name another file"),
        (("end.extxyz", "nowhere/end.extxyz"), "there is no folder nowhere"),
        (("max_steps = 200", 'cell = "full"'), "needs a cell that is periodic along all"),
        (("max_steps = 200", "pressure_GPa = 1"), 'cell = "fixed" has no pressure'),
        (('"float64"', '"float16"'), "float16"),
        (('"cpu"', '"abacus"'), r"\[model\]: device = 'abacus'"),
    ],
)
def test_mistakes_are_named_before_any_work(
    relax: Relax, start: Atoms, change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    start.pbc = (True, True, False)
    ase.io.write("start.extxyz", start)
    text = CONFIG.format(model=WATER, dtype="float64", limit=0.01, steps=200, more="")
    assert change[0] in text
    Path("relax.toml").write_text(text.replace(*change))
    with pytest.raises(ConfigError, match=message):
        relax_from_config("relax.toml", stdout=io.StringIO())
    assert {path.name for path in tmp_path.iterdir()} == {"relax.toml", "start.extxyz"}


def test_defaults_are_kept_whole(relax: Relax) -> None:
    relax(limit=10.0)
    config = RelaxConfig.load("relax.toml")
    assert config.relax.optimizer == "lbfgs"
    assert '"max_stress_GPa": 0.05' in config.to_json()


def test_the_example_can_be_read() -> None:
    for path in (Path(__file__).parents[2] / "inputs" / "relax").glob("*.toml"):
        config = RelaxConfig.load(path)
        assert config.structure_file.is_file()
        assert config.relax.optimizer == "lbfgs"
