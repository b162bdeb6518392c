"""Where a run starts from: velocities, degrees of freedom, frozen atoms."""

from collections.abc import Callable
from pathlib import Path

import ase.io
import numpy as np
import pytest
from ase.constraints import FixAtoms

from md_gie.errors import ConfigError, TrajectoryError
from md_gie.md.run import RunOutcome
from md_gie.structure import Structure, write_structure
from md_gie.trajectory import H5MDReader

BAROSTAT = """thermostat_fs = 100
barostat_fs = 100
compressibility_per_GPa = 0.3
pressure_GPa = 0.1"""

Result = tuple[RunOutcome, str, str]  # with what went to stdout and to stderr


def test_velocities_of_the_structure_are_kept(
    run_folder: Path, argon: Structure, edit_config: Callable[..., Path], run: Callable[..., Result]
) -> None:
    velocities = np.random.default_rng(5).normal(scale=1e-3, size=(32, 3))
    velocities -= velocities.mean(0)
    write_structure(
        "argon.extxyz",
        Structure(argon.numbers, argon.positions, argon.cell, argon.pbc, velocities),
    )
    edit_config(
        ("nvt-langevin", "nve"), ("friction_per_ps = 2\n", ""), ("temperature_K = 60\n", "")
    )
    run(n_steps=0)
    with H5MDReader("argon.h5md") as reader:
        np.testing.assert_allclose(reader[0].velocities, velocities, rtol=1e-6, atol=1e-9)
        assert len(reader) == 1


def test_temperature_is_needed_to_draw_velocities(
    run_folder: Path, edit_config: Callable[..., Path], run: Callable[..., Result]
) -> None:
    edit_config(
        ("nvt-langevin", "nve"), ("friction_per_ps = 2\n", ""), ("temperature_K = 60\n", "")
    )
    with pytest.raises(ConfigError, match=r"\[md\] temperature_K: missing; argon.extxyz has no"):
        run()


def test_frozen_atoms_stay_where_they_are(
    run_folder: Path, edit_config: Callable[..., Path], run: Callable[..., Result]
) -> None:
    edit_config(
        ("seed = 7", 'seed = 7\nfrozen_atoms = "0-9, 31"'),
        ("restart_every = 10", 'restart_every = 10\nposition_dtype = "f8"'),
    )
    _, _, err = run()
    assert "32 atoms (11 frozen)" in err
    assert "63 degrees of freedom" in err
    with H5MDReader("argon.h5md") as reader:
        moved = np.abs(reader[-1].positions - reader[0].positions).max(1)
    assert (moved[:10] == 0).all()
    assert moved[31] == 0
    assert (moved[10:31] > 0).all()


def test_frozen_atoms_of_the_structure_stay_too(
    run_folder: Path, argon: Structure, edit_config: Callable[..., Path], run: Callable[..., Result]
) -> None:
    atoms = argon.to_ase()
    atoms.set_constraint(FixAtoms([4, 5]))
    ase.io.write("argon.extxyz", atoms, columns=["symbols", "positions", "move_mask"])
    edit_config(("seed = 7", 'seed = 7\nfrozen_atoms = "5, 6"'))
    _, _, err = run()
    assert "32 atoms (3 frozen)" in err
    with H5MDReader("argon.h5md") as reader:
        moved = (reader[-1].positions != reader[0].positions).any(1)
    assert np.flatnonzero(~moved).tolist() == [4, 5, 6]
    write_structure("argon.extxyz", argon)
    with pytest.raises(TrajectoryError, match=r"frozen was \[4, 5\] \(2 entries\) and is now \[\]"):
        run(resume=True)


def test_frozen_atoms_of_the_structure_are_refused_where_they_cannot_stay(
    run_folder: Path, argon: Structure, edit_config: Callable[..., Path], run: Callable[..., Result]
) -> None:
    atoms = argon.to_ase()
    atoms.set_constraint(FixAtoms([4, 5]))
    ase.io.write("argon.extxyz", atoms, columns=["symbols", "positions", "move_mask"])
    edit_config(("seed = 7", "seed = 7\nfix_center_of_mass = true"))
    with pytest.raises(ConfigError, match="has frozen atoms, which hold the system already"):
        run()
    edit_config(
        ("fix_center_of_mass = true", ""),
        ("nvt-langevin", "npt-isotropic"),
        ("friction_per_ps = 2", BAROSTAT),
    )
    with pytest.raises(ConfigError, match='"npt-isotropic" moves all atoms with the cell'):
        run()


def test_all_atoms_frozen_is_a_mistake(
    run_folder: Path, edit_config: Callable[..., Path], run: Callable[..., Result]
) -> None:
    edit_config(("seed = 7", 'seed = 7\nfrozen_atoms = "0-31"'))
    with pytest.raises(ConfigError, match="all 32 atoms are frozen; leave one that moves"):
        run()


def test_thermostats_leave_out_the_motion_of_the_whole(
    run_folder: Path, argon: Structure, edit_config: Callable[..., Path], run: Callable[..., Result]
) -> None:
    velocities = np.random.default_rng(5).normal(scale=1e-3, size=(32, 3)) + 0.01
    atoms = argon.numbers, argon.positions, argon.cell, argon.pbc
    write_structure("argon.extxyz", Structure(*atoms, velocities))
    edit_config(("nvt-langevin", "nvt-bussi"), ("friction_per_ps = 2", "thermostat_fs = 100"))
    _, _, err = run(n_steps=2)
    assert "the centre of mass moved, which nvt-bussi would take for heat" in err
    with H5MDReader("argon.h5md") as reader:
        assert np.abs(reader[0].velocities.mean(0)).max() < 1e-8
    write_structure("argon.extxyz", Structure(*atoms, velocities * 0))
    with pytest.raises(ConfigError, match="scales velocities and all atoms are at rest"):
        run(overwrite=True)


def test_free_molecules_are_drawn_without_rotation(
    run_folder: Path, argon: Structure, edit_config: Callable[..., Path], run: Callable[..., Result]
) -> None:
    write_structure(
        "argon.extxyz", Structure(argon.numbers[:4], argon.positions[:4], argon.cell * 0, False)
    )
    edit_config(("nvt-langevin", "nvt-nose-hoover"), ("friction_per_ps = 2", "thermostat_fs = 100"))
    _, _, err = run(n_steps=40)
    assert "6 degrees of freedom" in err
    with H5MDReader("argon.h5md") as reader:
        for frame in (reader[0], reader[-1]):
            arms = frame.positions - frame.positions.mean(0)
            turning = np.abs(np.cross(arms, frame.velocities).sum(0)).max()
            assert turning < 1e-6 * np.abs(arms).max() * np.abs(frame.velocities).max() * 10
