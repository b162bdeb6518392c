"""``[md]``: what each ensemble needs, ramps, frozen atoms, and complaints word for word."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from md_gie.errors import ConfigError
from md_gie.md import RunConfig
from md_gie.md.ensembles import MDTable
from md_gie.structure import Structure, write_structure

REMEDY = "remove it, or choose another ensemble"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "friction_per_ps = 2",
            "pressure_GPa = 1",
            'argon.toml, [md] friction_per_ps: missing; ensemble "nvt-langevin" needs a number',
        ),
        (
            "friction_per_ps = 2",
            "friction_per_ps = 2\nchain_length = 3",
            'argon.toml, [md] chain_length: ensemble "nvt-langevin" has no such setting; ' + REMEDY,
        ),
        (
            "friction_per_ps = 2",
            "friction_per_ps = 2\npressure_ramp_ps_GPa = [[0, 1]]",
            'argon.toml, [md] pressure_ramp_ps_GPa: ensemble "nvt-langevin" has no such setting; '
            + REMEDY,
        ),
        (
            '"nvt-langevin"',
            '"npt-isotropic"',
            'argon.toml, [md] thermostat_fs: missing; ensemble "npt-isotropic" needs a number',
        ),
        (
            "temperature_K = 60",
            "temperature_K = 60\ntemperature_ramp_ps_K = [[0, 60]]",
            (
                "argon.toml, [md] temperature_ramp_ps_K: temperature_K is given as well; keep one "
                "of the two"
            ),
        ),
        (
            "temperature_K = 60",
            "temperature_ramp_ps_K = [[0, 60], [1, 70, 80]]",
            (
                "argon.toml, [md] temperature_ramp_ps_K: got [[0, 60], [1, 70, 80]]; a list of "
                "[time, value] pairs is needed"
            ),
        ),
        (
            "temperature_K = 60",
            "temperature_ramp_ps_K = [[0, 60], [1, -70]]",
            "argon.toml, [md] temperature_ramp_ps_K: -70.0 is below 0, the least that is possible",
        ),
        (
            "temperature_K = 60",
            "temperature_ramp_ps_K = [[1, 60], [1, 70]]",
            (
                "argon.toml, [md] temperature_ramp_ps_K: times must increase from point to point; "
                "put them in order"
            ),
        ),
        (
            "temperature_K = 60",
            "temperature_ramp_ps_K = [[nan, 60]]",
            (
                "argon.toml, [md] temperature_ramp_ps_K: a time is not a number from 0 ps on; "
                "correct it"
            ),
        ),
        (
            "friction_per_ps = 2",
            'friction_per_ps = 2\nfix_center_of_mass = true\nfrozen_atoms = "0"',
            (
                "argon.toml, [md] fix_center_of_mass: frozen atoms hold the system already; "
                "remove one of the two keys"
            ),
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


def test_ramps_are_schedules_in_femtoseconds(edit_config: Callable[..., Path]) -> None:
    edit_config(("temperature_K = 60", "temperature_ramp_ps_K = [[0, 60], [0.5, 90]]"))
    md = RunConfig.load("argon.toml").md
    assert md.temperature is not None
    assert [md.temperature.at(time) for time in (0.0, 250.0, 500.0)] == [60, 75, 90]
    assert md.pressure is None


NPT = """thermostat_fs = 100
barostat_fs = 500
compressibility_per_GPa = 0.5
pressure_GPa = 0.1"""


def test_barostats_refuse_what_they_would_move(
    edit_config: Callable[..., Path], argon: Structure, run: Callable
) -> None:
    edit_config(("nvt-langevin", "npt-full-cell"), ("friction_per_ps = 2", NPT))
    slab = Structure(argon.numbers, argon.positions, argon.cell, np.array([True, True, False]))
    write_structure("argon.extxyz", slab)
    with pytest.raises(ConfigError, match="needs a structure that is periodic along all three"):
        run()
    edit_config(("seed = 7", 'seed = 7\nfrozen_atoms = "3"'))
    with pytest.raises(ConfigError, match=r"frozen_atoms: ensemble .* moves all atoms with the"):
        RunConfig.load("argon.toml")


def test_baths_must_be_slower_than_steps(edit_config: Callable[..., Path]) -> None:
    edit_config(("nvt-langevin", "npt-full-cell"), ("friction_per_ps = 2", NPT))
    RunConfig.load("argon.toml")
    edit_config(("barostat_fs = 500", "barostat_fs = 39"))
    with pytest.raises(ConfigError, match=r"barostat_fs: 39 is below 40, 10 timesteps, and too"):
        RunConfig.load("argon.toml")
    edit_config(
        ("npt-full-cell", "nvt-nose-hoover"), (NPT.replace("500", "39"), "thermostat_fs = 39")
    )
    with pytest.raises(ConfigError, match=r"thermostat_fs: 39 is below 40, 10 timesteps"):
        RunConfig.load("argon.toml")
    edit_config(("nvt-nose-hoover", "nvt-bussi"))
    RunConfig.load("argon.toml")


def test_frozen_atoms_are_indices_and_ranges() -> None:
    def frozen(text: str) -> list[int]:
        table = MDTable("nve", 1.0, 1, frozen_atoms=text)
        return table.frozen_indices(32, Path("argon.toml"))

    assert frozen("") == frozen(" , ") == []
    assert frozen("5") == [5]
    assert frozen("30-31, 2, 0 - 3") == [0, 1, 2, 3, 30, 31]
    for text in ("a", "1-2-3", "-1", "1.5", "²", "0-"):
        with pytest.raises(ConfigError, match=r"argon.toml, \[md\] frozen_atoms: .* is no index"):
            frozen(text)
    for text in ("32", "4-3", "0-32", "9" * 5000):
        with pytest.raises(ConfigError, match="is not among the 32 atoms, whose indices go from 0"):
            frozen(text)
