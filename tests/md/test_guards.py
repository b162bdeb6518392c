"""A run that is no longer physical stops, names step and atoms, and leaves sound files."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import md_gie.engine
from md_gie.errors import SimulationError, StructureError
from md_gie.md.run import RunOutcome
from md_gie.structure import Structure, write_structure
from md_gie.trajectory import H5MDReader, RestartFiles

Result = tuple[RunOutcome, str, str]  # with what went to stdout and to stderr


def test_non_finite_forces_stop_the_run_and_name_the_atoms(
    run_folder: Path, toy: ModuleType, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Result]
) -> None:
    def load(*args: Any, **options: Any) -> Any:
        engine = toy.ToyEngine()
        engine.poison_at = 28  # the evaluation after step 27 begins
        return engine

    monkeypatch.setattr(md_gie.engine, "load_potential", load)
    with pytest.raises(SimulationError) as caught:
        run()
    assert str(caught.value).startswith("step 27: energy is")
    assert "forces on 2 atoms (3, 5) are not finite" in str(caught.value)
    assert caught.value.data["step"] == 27
    assert caught.value.data["atoms"] == [3, 5]
    with H5MDReader("argon.h5md") as reader:
        assert reader.steps.tolist() == list(range(0, 27, 2))
        reader.verify()
        assert all(np.isfinite(frame.forces).all() for frame in reader)
    with H5MDReader("argon.failed.h5md") as reader:
        assert reader[0].step == 27
        assert np.isfinite(reader[0].positions).all()
    restart = RestartFiles("argon.h5md").latest()
    assert restart is not None
    assert restart.step == 20


def test_heat_stops_the_run(
    run_folder: Path, edit_config: Callable[..., Path], run: Callable[..., Result]
) -> None:
    path = edit_config(("seed = 7", "seed = 7\n[guards]\nmax_temperature_K = 80"))
    edit_config(("temperature_K = 60", "temperature_K = 160"))
    with pytest.raises(SimulationError, match=r"step 1: the temperature is \d\d\d K, above guards"):
        run(path)
    with H5MDReader("argon.failed.h5md") as reader:
        assert reader[0].step == 1


def test_overlap_at_the_start_is_a_mistake_in_the_structure(
    run_folder: Path, argon: Structure, run: Callable[..., Result]
) -> None:
    for distance, place in ((0.05, [0.05, 0.0, 0.0]), (0, [0.0, 0.0, 0.0])):
        positions = argon.positions.copy()
        positions[9] = positions[5] + place
        write_structure("argon.extxyz", Structure(argon.numbers, positions, argon.cell, argon.pbc))
        with pytest.raises(StructureError, match=f"are {distance} Å apart") as caught:
            run()
        assert sorted(caught.value.data["atoms"]) == [5, 9]
        assert not Path("argon.h5md").exists()


def test_atoms_that_collide_stop_the_run(
    run_folder: Path, argon: Structure, edit_config: Callable[..., Path], run: Callable[..., Result]
) -> None:
    edit_config(("seed = 7", "seed = 7\n[guards]\nmin_distance_A = 3.0"))
    velocities = np.zeros((32, 3))
    direction = argon.positions[1] - argon.positions[0]
    velocities[0] = 0.005 * direction
    write_structure(
        "argon.extxyz",
        Structure(argon.numbers, argon.positions, argon.cell, argon.pbc, velocities),
    )
    with pytest.raises(SimulationError, match=r"step \d+: atoms \d and \d are 2.\d+ Å apart") as e:
        run()
    assert sorted(e.value.data["atoms"]) == [0, 1]


@pytest.mark.parametrize("taken_by", ["text", "run"])
def test_failed_frame_spares_other_files(
    run_folder: Path, edit_config: Callable[..., Path], run: Callable[..., Result], taken_by: str
) -> None:
    taken = Path("argon.failed.h5md")
    if taken_by == "text":
        taken.write_text("years of work")
    else:
        edit_config(("argon.h5md", "argon.failed.h5md"))
        run(n_steps=2)
        edit_config(("argon.failed.h5md", "argon.h5md"))
    before = taken.read_bytes()
    edit_config(("seed = 7", "seed = 7\n[guards]\nmax_temperature_K = 80"))
    edit_config(("temperature_K = 60", "temperature_K = 160"))
    with pytest.raises(SimulationError, match=r"step 1: .* the one that failed is not saved \("):
        run()
    assert taken.read_bytes() == before


def test_failed_frame_replaces_an_earlier_one(
    run_folder: Path, edit_config: Callable[..., Path], run: Callable[..., Result]
) -> None:
    edit_config(("seed = 7", "seed = 7\n[guards]\nmax_temperature_K = 80"))
    edit_config(("temperature_K = 60", "temperature_K = 160"))
    for _ in range(2):
        with pytest.raises(SimulationError, match=r"argon.failed.h5md the one that failed"):
            run(overwrite=True)


@pytest.mark.parametrize(
    ("guard", "message"),
    [
        (
            "max_temperature_jump_K = 1e-3",
            r"step 1: the temperature went from 74 to \d\d K, by more",
        ),
        ("max_energy_jump_eV = 1e-12", r"step 1: the conserved energy changed by [-\d.e]+ eV/atom"),
    ],
)
def test_jumps_stop_the_run_and_name_atoms(
    run_folder: Path,
    edit_config: Callable[..., Path],
    run: Callable[..., Result],
    guard: str,
    message: str,
) -> None:
    edit_config(("seed = 7", f"seed = 7\n[guards]\n{guard}"))
    with pytest.raises(SimulationError, match=message) as caught:
        run()
    assert len(caught.value.data["atoms"]) == 3
    assert f"guards.{guard.split(' ')[0]}" in str(caught.value)
    with H5MDReader("argon.failed.h5md") as reader:
        fastest = np.linalg.norm(reader[0].velocities, axis=1).argmax()
    assert caught.value.data["atoms"][0] == fastest


def test_too_long_a_timestep_is_found_out(
    run_folder: Path, edit_config: Callable[..., Path], run: Callable[..., Result]
) -> None:
    edit_config(
        ("timestep_fs = 4.0", "timestep_fs = 100"), ("temperature_K = 60", "temperature_K = 900")
    )
    with pytest.raises(SimulationError, match=r"step \d+: (atoms|the conserved energy|the temper)"):
        run()
    with H5MDReader("argon.h5md") as reader:
        reader.verify()
        assert np.ptp(reader.observable("conserved_energy")) / 32 < 1.0
