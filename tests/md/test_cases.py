"""Trial cases for dynamics: unwrapped coordinates, no neighbours, doubled atoms, moving edges."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from md_gie.errors import SimulationError, StructureError
from md_gie.md.run import RunOutcome
from md_gie.structure import Structure, write_structure
from md_gie.trajectory import H5MDReader

Run = Callable[..., tuple[RunOutcome, str, str]]
NVE = (("nvt-langevin", "nve"), ("friction_per_ps = 2\n", ""))


@pytest.fixture
def disordered() -> Structure:
    """64 atoms near a simple cubic lattice, in a cell that is tilted by 2 Å in xy."""
    rng = np.random.default_rng(4)
    cell = 14.8 * np.eye(3)
    cell[1, 0] = 2.0
    places = np.stack(np.meshgrid(*[np.arange(4) / 4] * 3), axis=-1).reshape(-1, 3)
    positions = places @ cell + rng.normal(scale=0.15, size=(64, 3))
    velocities = rng.normal(scale=1.2e-3, size=(64, 3))
    return Structure(np.full(64, 18), positions, cell, True, velocities - velocities.mean(0))


def test_unwrapped_coordinates_follow_the_same_path_and_stay_unwrapped(
    run_folder: Path, disordered: Structure, edit_config: Callable[..., Path], run: Run
) -> None:
    edit_config(*NVE, ("restart_every = 10", 'restart_every = 10\nposition_dtype = "f8"'))
    shifts = np.random.default_rng(5).integers(-7, 8, (64, 3)) @ disordered.cell
    frames = []
    for shift in (0.0, shifts):
        moved = Structure(
            disordered.numbers,
            disordered.positions + shift,
            disordered.cell,
            disordered.pbc,
            disordered.velocities,
        )
        write_structure("argon.extxyz", moved)
        run(n_steps=200, overwrite=True)
        with H5MDReader("argon.h5md") as reader:
            frames.append(list(reader))
    first, second = frames
    for name in ("potential_energy", "stress"):
        np.testing.assert_allclose(
            first[0].observables[name], second[0].observables[name], rtol=1e-9, atol=1e-12
        )
    np.testing.assert_allclose(first[0].forces, second[0].forces, rtol=0, atol=1e-6)
    at_50 = [next(frame for frame in side if frame.step == 50) for side in frames]
    np.testing.assert_allclose(at_50[1].positions - shifts, at_50[0].positions, rtol=0, atol=1e-6)
    # No frame of 200 steps jumps by a lattice vector.
    for side in frames:
        path = np.array([frame.positions for frame in side])
        assert np.abs(np.diff(path, axis=0)).max() < 0.2


@pytest.mark.parametrize("ensemble", ["nve", "nvt-langevin", "nvt-bussi", "nvt-nose-hoover"])
def test_one_atom_moves_freely(
    run_folder: Path, edit_config: Callable[..., Path], run: Run, ensemble: str
) -> None:
    settings = {"nve": "", "nvt-langevin": "friction_per_ps = 2"}
    edit_config(
        ("nvt-langevin", ensemble),
        ("friction_per_ps = 2", settings.get(ensemble, "thermostat_fs = 100")),
    )
    for cell, periodic in ((0.0, False), (40.0, True)):
        one = Structure(np.array([18]), np.ones((1, 3)), cell * np.eye(3), periodic)
        write_structure("argon.extxyz", one)
        run(n_steps=40, overwrite=True)
        with H5MDReader("argon.h5md") as reader:
            assert not np.array([frame.forces for frame in reader]).any()
            assert np.ptp(reader.observable("conserved_energy")) < 1e-7
            assert (reader.observable("temperature") > 0).all()
            assert not reader.observable("potential_energy").any()


def test_a_lone_atom_feels_no_force_and_leaves_the_rest_alone(
    run_folder: Path, argon: Structure, edit_config: Callable[..., Path], run: Run
) -> None:
    edit_config(*NVE, ("restart_every = 10", 'restart_every = 10\nposition_dtype = "f8"'))
    cluster = argon.positions[:9]
    velocities = np.random.default_rng(1).normal(scale=1e-3, size=(10, 3))
    paths = []
    for positions in (np.vstack([cluster, [60.0, 0.0, 0.0]]), cluster):
        n_atoms = len(positions)
        write_structure(
            "argon.extxyz",
            Structure(np.full(n_atoms, 18), positions, np.eye(3) * 0, False, velocities[:n_atoms]),
        )
        run(n_steps=40, overwrite=True)
        with H5MDReader("argon.h5md") as reader:
            paths.append(np.array([frame.positions for frame in reader]))
            if n_atoms == 10:
                assert not reader[-1].forces[9].any()
    np.testing.assert_allclose(paths[0][:, :9], paths[1], rtol=0, atol=1e-9)


def test_doubled_atoms_are_named_and_nothing_is_written(
    run_folder: Path, argon: Structure, run: Run
) -> None:
    doubled = np.vstack([argon.positions, argon.positions])
    write_structure("argon.extxyz", Structure(np.full(64, 18), doubled, argon.cell, argon.pbc))
    with pytest.raises(StructureError, match=r"atoms (\d+) and (\d+) are 0 Å apart") as caught:
        run()
    first, second = sorted(caught.value.data["atoms"])
    assert second == first + 32
    assert not list(run_folder.glob("*.h5md"))


def test_density_sweep_goes_both_ways(
    run_folder: Path, argon: Structure, edit_config: Callable[..., Path], run: Run
) -> None:
    barostat = """thermostat_fs = 100
barostat_fs = 100
compressibility_per_GPa = 0.3
pressure_ramp_ps_GPa = [[0, 0.0], [0.8, 2.0], [1.6, 0.0]]"""
    edit_config(("nvt-langevin", "npt-isotropic"), ("friction_per_ps = 2", barostat))
    run(n_steps=400)
    with H5MDReader("argon.h5md") as reader:
        volumes = reader.observable("volume")
        drift = np.ptp(reader.observable("conserved_energy")) / 32
        builds = reader.observable("neighbor_builds")
    lowest = volumes.argmin()
    assert volumes[lowest] < 0.85 * volumes[0]
    assert 150 < 2 * lowest < 280
    assert volumes[-1] > 1.1 * volumes[lowest]
    assert drift < 1e-4
    # Edges come and go all the time; lists are kept for a while all the same.
    assert 3 < builds[-1] < 100


def test_heating_ramp_stops_only_at_its_guard(
    run_folder: Path, argon: Structure, edit_config: Callable[..., Path], run: Run
) -> None:
    edit_config(
        ("temperature_K = 60", "temperature_ramp_ps_K = [[0, 50], [1.2, 1500]]"),
        ("friction_per_ps = 2", "friction_per_ps = 20"),
        ("timestep_fs = 4.0", "timestep_fs = 2.0"),
    )
    outcome, _, _ = run(n_steps=600)
    assert outcome.last_step == 600
    with H5MDReader("argon.h5md") as reader:
        temperatures = reader.observable("temperature")
    # 96 degrees of freedom spread by a seventh.
    assert temperatures[-20:].mean() == pytest.approx(1450, rel=0.3)
    edit_config(("seed = 7", "seed = 7\n[guards]\nmax_temperature_K = 700"))
    with pytest.raises(SimulationError) as caught:
        run(n_steps=600, overwrite=True)
    assert re.match(r"step \d+: the temperature is 7\d\d K, above guards", str(caught.value))
    assert 100 < caught.value.data["step"] < 500
