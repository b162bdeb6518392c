"""Configurations: what they mean, and every complaint word for word."""

from collections.abc import Callable
from pathlib import Path

import pytest

from md_gie.errors import ConfigError
from md_gie.md import RunConfig

MD_KEYS = (
    "Keys of [md]: barostat_fs, chain_length, compressibility_per_GPa, ensemble, "
    "fix_center_of_mass, friction_per_ps, frozen_atoms, n_steps, pressure_GPa, "
    "pressure_ramp_ps_GPa, seed, temperature_K, temperature_ramp_ps_K, thermostat_fs, timestep_fs"
)
ENSEMBLES = (
    '"nve" or "nvt-langevin" or "nvt-bussi" or "nvt-nose-hoover" or "npt-isotropic" or '
    '"npt-anisotropic" or "npt-full-cell"'
)
TABLES = "Tables: guards, md, model, neighbors, output, structure"
COMPILE_NEEDS = 'true or false or "auto" or "graph" or "capture" is needed'
REMEDY = "remove it, or choose another ensemble"


def test_defaults_and_overrides(run_folder: Path) -> None:
    config = RunConfig.load("argon.toml")
    assert config.model.dtype == "float32"
    assert config.md.temperature_K == 60.0
    assert isinstance(config.md.temperature_K, float)
    assert config.output.position_dtype == "f4"
    changed = config.with_overrides(n_steps=5, device="cuda:1")
    assert (changed.md.n_steps, changed.model.device) == (5, "cuda:1")
    assert (config.md.n_steps, config.model.device) == (60, "auto")
    assert '"n_steps": 5' in changed.to_json()
    assert '"skin_A": 0.4' in changed.to_json()


def test_files_are_found_from_the_configuration(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run_folder.parent)
    config = RunConfig.load(f"{run_folder.name}/argon.toml")
    assert config.structure_file == Path(run_folder.name, "argon.extxyz")
    assert config.model_source == f"{run_folder.name}/toy.pt"
    # Outputs go where the command is given.
    assert config.trajectory_file == Path("argon.h5md")
    Path(run_folder, "toy.pt").unlink()
    assert config.model_source == "toy.pt", "then it is a bundled model's name"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "timestep_fs = 4.0",
            "timestep = 4.0",
            "argon.toml, [md] timestep: unknown key; did you mean timestep_fs? " + MD_KEYS,
        ),
        (
            "seed = 7",
            "zzz = 7",
            "argon.toml, [md] zzz: unknown key. " + MD_KEYS,
        ),
        (
            "[neighbors]",
            "[neighbours]",
            "argon.toml, [neighbours]: unknown table; did you mean [neighbors]? " + TABLES,
        ),
        ("n_steps = 60\n", "", "argon.toml, [md] n_steps: missing; an integer is needed"),
        (
            "n_steps = 60",
            'n_steps = "60"',
            "argon.toml, [md] n_steps: got '60'; an integer is needed",
        ),
        (
            "n_steps = 60",
            "n_steps = 6.5",
            "argon.toml, [md] n_steps: got 6.5; an integer is needed",
        ),
        (
            "n_steps = 60",
            "n_steps = true",
            "argon.toml, [md] n_steps: got True; an integer is needed",
        ),
        (
            "timestep_fs = 4.0",
            "timestep_fs = 0",
            "argon.toml, [md] timestep_fs: 0.0 is not above 0; choose a larger value",
        ),
        (
            "timestep_fs = 4.0",
            "timestep_fs = nan",
            "argon.toml, [md] timestep_fs: nan is not finite; a finite number is needed",
        ),
        (
            "skin_A = 0.4",
            "skin_A = -0.1",
            "argon.toml, [neighbors] skin_A: -0.1 is below 0, the least that is possible",
        ),
        (
            '"nvt-langevin"',
            '"nvt"',
            f"argon.toml, [md] ensemble: got 'nvt'; {ENSEMBLES} is needed",
        ),
        (
            "friction_per_ps = 2\n",
            "",
            'argon.toml, [md] friction_per_ps: missing; ensemble "nvt-langevin" needs a number',
        ),
        (
            '"nvt-langevin"',
            '"nve"',
            'argon.toml, [md] friction_per_ps: ensemble "nve" has no such setting; ' + REMEDY,
        ),
        (
            'name = "toy.pt"',
            'name = "toy.pt"\ncompile = "fast"',
            "argon.toml, [model] compile: got 'fast'; " + COMPILE_NEEDS,
        ),
        (
            '[model]\nname = "toy.pt"',
            'model = "toy.pt"',
            "argon.toml, model: 'toy.pt' where a table [model] is needed",
        ),
        (
            "n_steps = 60",
            "n_steps = ",
            "argon.toml: not TOML (Invalid value (at line 14, column 11))",
        ),
    ],
)
def test_complaints_word_for_word(
    edit_config: Callable[..., Path], old: str, new: str, message: str
) -> None:
    edit_config((old, new))
    with pytest.raises(ConfigError) as caught:
        RunConfig.load("argon.toml")
    assert str(caught.value) == message


def test_missing_file_is_named(run_folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing.toml: no such configuration file"):
        RunConfig.load("nothing.toml")


@pytest.mark.parametrize(
    "name", ["", ".", "./", "..", "/", "new/..", "new/", "folder", "/dev/null"]
)
def test_trajectory_must_be_a_file(
    run_folder: Path, edit_config: Callable[..., Path], name: str
) -> None:
    (run_folder / "folder").mkdir()
    edit_config(('"argon.h5md"', f'"{name}"'))
    with pytest.raises(ConfigError, match=r"argon.toml, \[output\] trajectory: .*; name a"):
        RunConfig.load("argon.toml")


@pytest.mark.parametrize("name", ["argon.extxyz", "./argon.toml", "toy.pt", "link", "restart"])
def test_a_run_never_writes_over_its_inputs(
    run_folder: Path, edit_config: Callable[..., Path], name: str
) -> None:
    (run_folder / "link").symlink_to("argon.extxyz")
    if name == "restart":
        (run_folder / "argon.extxyz").rename("argon.restart-1.npz")
        edit_config(("argon.extxyz", "argon.restart-1.npz"))
        name = "argon.h5md"
    edit_config(('"argon.h5md"', f'"{name}"'))
    with pytest.raises(ConfigError, match="would write over its own input"):
        RunConfig.load("argon.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("timestep_fs = 4.0", f"timestep_fs = 1{'0' * 400}", "is beyond all floating-point"),
        ("timestep_fs = 4.0", "timestep_fs = 1e999", "inf is not finite"),
        ("timestep_fs = 4.0", "timestep_fs = 1e9", r"1000000000.0 is above 100, the most that"),
        ("n_steps = 60", f"n_steps = 1{'0' * 400}", "0… is above 1e[+]12, the most that"),
        ("n_steps = 60", f"n_steps = -1{'0' * 400}", "0… is below 0, the least that"),
        ("n_steps = 60", f"n_steps = {'9' * 5000}", "a value cannot be read"),
        ("n_steps = 60", f"n_steps = 0x{'f' * 5000}", "a number of thousands of digits is above"),
        ("n_steps = 60", "n_steps = 2024-02-31", "argon.toml: not TOML|a value cannot be read"),
        ("n_steps = 60", f"n_steps = {'[' * 5000}{']' * 5000}", "a value cannot be read"),
        ('"toy.pt"', f"0x{'f' * 5000}", "got a number of thousands of digits; text is needed"),
        ("trajectory_every = 2", f"trajectory_every = {10**30}", "is above 1e[+]12"),
        ("temperature_K = 60", "temperature_K = 1e300", "is above 1e[+]06"),
        ("friction_per_ps = 2", "friction_per_ps = 1e300", "is above 1e[+]06"),
        ("skin_A = 0.4", "skin_A = 20.5", "20.5 is above 20, the most that is possible"),
        ('"argon.h5md"', r'"nul\u0000x.h5md"', r"\[output\] trajectory: .* has a null character"),
        ('"argon.extxyz"', r'"nul\u0000x"', r"\[structure\] file: .* has a null character"),
    ],
)
def test_extreme_values_get_one_sentence(
    edit_config: Callable[..., Path], old: str, new: str, message: str
) -> None:
    edit_config((old, new))
    with pytest.raises(ConfigError, match=message) as caught:
        RunConfig.load("argon.toml")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("n_steps", [-1, 10**400])
def test_overriding_steps_has_the_same_limits(run_folder: Path, n_steps: int) -> None:
    with pytest.raises(ConfigError, match=r"number of steps: .* that is possible"):
        RunConfig.load("argon.toml").with_overrides(n_steps=n_steps, device=None)
