"""A run as users start it: files, table, summary, and what it refuses to begin."""

import io
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from md_gie.errors import TrajectoryError
from md_gie.md import run_from_config
from md_gie.md.observers import OBSERVABLES, PERIODIC_OBSERVABLES
from md_gie.md.run import RunOutcome
from md_gie.structure import Structure, write_structure
from md_gie.trajectory import H5MDReader, RestartFiles

BAROSTAT = """thermostat_fs = 100
barostat_fs = 100
compressibility_per_GPa = 0.3
pressure_GPa = 0.1"""

Result = tuple[RunOutcome, str, str]  # with what went to stdout and to stderr


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_run_writes_table_trajectory_and_summary(
    run_folder: Path, run: Callable[..., Result]
) -> None:
    outcome, out, err = run()
    assert (outcome.last_step, outcome.signal_number) == (60, 0)
    lines = out.splitlines()
    assert " ".join(lines[0].split()) == "step time/ps E_pot/eV E_kin/eV T/K conserved/eV P/GPa"
    assert [line.split()[0] for line in lines[1:5]] == ["0", "20", "40", "60"]
    assert float(lines[4].split()[1]) == 0.24
    assert lines[5].startswith("60 steps of 32 atoms, ")
    parts = ("edges", "ms/step (neighbours", "model", "integration", "writing", "ns/day", "MiB")
    assert all(part in lines[5] for part in parts)
    assert "\r" not in err
    assert err.count("left\n") == 10
    with H5MDReader("argon.h5md") as reader:
        assert reader.steps.tolist() == list(range(0, 61, 2))
        reader.verify()
        values = {name: reader[-1].observables[name] for name in reader.observables}
        row = [float(text) for text in lines[4].split()]
        assert row[2] == pytest.approx(values["potential_energy"], abs=6e-5)
        assert row[4] == pytest.approx(values["temperature"], abs=6e-3)
        assert row[6] == pytest.approx(values["pressure"], abs=6e-5)
        drift = np.ptp(reader.observable("conserved_energy")) / 32
        assert drift < 1e-4
        assert np.ptp(reader.observable("kinetic_energy")) / 32 > 10 * drift
        assert '"timestep_fs": 4.0' in reader.header.metadata["config"]


def test_summary_adds_up(run_folder: Path, run: Callable[..., Result]) -> None:
    outcome, _, _ = run()
    summary = outcome.summary
    assert set(summary.milliseconds) == {"neighbours", "model", "integration", "writing"}
    assert all(value > 0 for value in summary.milliseconds.values())
    step_s = sum(summary.milliseconds.values()) / 1000
    assert summary.ns_per_day == pytest.approx(86400 / step_s * 4.0 * 1e-6)
    assert summary.peak_bytes["host"] > 50 * 2**20


def test_terminal_gets_a_bar(run_folder: Path) -> None:
    out, err = Terminal(), Terminal()
    run_from_config("argon.toml", stdout=out, stderr=err)
    assert "\r" in err.getvalue()
    assert "60/60" in err.getvalue()


def test_files_of_an_earlier_run_are_not_overwritten_unasked(
    run_folder: Path, run: Callable[..., Result], contents: Callable[[Path], dict[str, bytes]]
) -> None:
    run(n_steps=20)
    before = contents(run_folder / "argon.h5md")
    with pytest.raises(TrajectoryError, match=r"argon.h5md exists: go on with --resume"):
        run()
    assert contents(run_folder / "argon.h5md") == before
    Path("argon.h5md").unlink()
    with pytest.raises(TrajectoryError, match=r"restart-\d.npz exists"):
        run()
    kept = Path("argon.restart-0.npz").read_bytes()
    Path("argon.restart-0.npz").write_text("a thesis")
    with pytest.raises(TrajectoryError, match=r"restart-0.npz is damaged or no restart file"):
        run(n_steps=4, overwrite=True)
    assert Path("argon.restart-0.npz").read_text() == "a thesis"
    assert not Path("argon.h5md").exists()
    Path("argon.restart-0.npz").write_bytes(kept)
    run(n_steps=4, overwrite=True)
    latest = RestartFiles("argon.h5md").latest()
    assert latest is not None
    assert latest.step == 4


def test_clusters_have_no_pressure(
    run_folder: Path, argon: Structure, run: Callable[..., Result]
) -> None:
    free = Structure(argon.numbers, argon.positions, argon.cell * 0, np.zeros(3, bool))
    write_structure("argon.extxyz", free)
    _, out, _ = run(n_steps=4)
    assert "P/GPa" not in out
    with H5MDReader("argon.h5md") as reader:
        assert "stress" not in reader.observables
        assert reader.header.pbc == (False, False, False)


def test_default_dtype_and_threads_are_left_alone(
    run_folder: Path, run: Callable[..., Result]
) -> None:
    def read() -> tuple[object, ...]:
        return (
            torch.get_default_dtype(),
            torch.get_num_threads(),
            torch.is_grad_enabled(),
            torch.random.get_rng_state().sum().item(),
            signal.getsignal(signal.SIGINT),
            signal.getsignal(signal.SIGTERM),
        )

    before = read()
    run(n_steps=4)
    assert read() == before


def test_frames_carry_the_listed_observables(
    run_folder: Path, argon: Structure, edit_config: Callable[..., Path], run: Callable[..., Result]
) -> None:
    edit_config(("nvt-langevin", "npt-isotropic"), ("friction_per_ps = 2", BAROSTAT))
    outcome, _, _ = run()
    with H5MDReader("argon.h5md") as reader:
        listed = {item.name: item.unit for item in OBSERVABLES + PERIODIC_OBSERVABLES}
        assert reader.observables == listed
        volumes = [abs(np.linalg.det(frame.cell)) for frame in reader]
        np.testing.assert_allclose(reader.observable("volume"), volumes, rtol=1e-12)
        assert np.ptp(volumes) > 1
        last = reader[-1]
        fractions = last.positions.astype(float) @ np.linalg.inv(last.cell)
        apart = fractions[:, None] - fractions
        vectors = (apart - np.round(apart)) @ last.cell
        distances = np.linalg.norm(vectors, axis=-1)[~np.eye(32, dtype=bool)]
        assert reader.observable("closest_distance")[-1] == pytest.approx(distances.min(), abs=1e-5)
        builds = reader.observable("neighbor_builds")
        assert builds[0] == 1
        assert builds[-1] <= outcome.summary.n_builds
        assert reader.summaries[0]["last_step"] == 60
        assert reader.summaries[0]["ns_per_day"] == outcome.summary.ns_per_day


def test_atoms_without_neighbours_have_the_cutoff_as_closest_distance(
    run_folder: Path, run: Callable[..., Result]
) -> None:
    apart = Structure(np.full(2, 18), np.array([[0.0, 0, 0], [9, 0, 0]]), np.eye(3) * 0, False)
    write_structure("argon.extxyz", apart)
    run(n_steps=2)
    with H5MDReader("argon.h5md") as reader:
        assert reader.observable("closest_distance").tolist() == [6.0, 6.0]


def test_each_kind_of_data_has_its_cadence(
    run_folder: Path,
    edit_config: Callable[..., Path],
    run: Callable[..., Result],
    contents: Callable[[Path], dict[str, bytes]],
) -> None:
    edit_config(
        (
            "trajectory_every = 2",
            "trajectory_every = 6\nvelocities_every = 0\nforces_every = 12\nobservables_every = 1",
        )
    )
    run()
    with H5MDReader("argon.h5md") as reader:
        assert reader.steps.tolist() == list(range(0, 61, 6))
        assert reader[1].velocities is None
        assert [frame.forces is not None for frame in reader] == [True, False] * 5 + [True]
        steps, times, values = reader.series("temperature")
        assert steps.tolist() == list(range(61))
        np.testing.assert_allclose(times, 4.0 * steps)
        assert len(np.unique(values)) == 61
    expected = contents(run_folder / "argon.h5md")
    run(overwrite=True, n_steps=33)
    run(resume=True)
    assert contents(run_folder / "argon.h5md") == expected
    edit_config(("forces_every = 12", "forces_every = 6"))
    with pytest.raises(TrajectoryError, match="forces_every was 12 and is now 6"):
        run(resume=True, n_steps=70)


def test_summaries_count_the_lists_of_their_process(
    run_folder: Path, edit_config: Callable[..., Path], run: Callable[..., Result]
) -> None:
    edit_config(("temperature_K = 60", "temperature_K = 400"))
    run(n_steps=37)
    run(resume=True)
    with H5MDReader("argon.h5md") as reader:
        parts = [entry["n_builds"] for entry in reader.summaries]
        assert min(parts) > 0
        assert sum(parts) == reader.observable("neighbor_builds")[-1]
        assert [entry["n_steps"] for entry in reader.summaries] == [37, 23]


@pytest.mark.parametrize("ensemble", ["nvt-langevin", "npt-isotropic"])
def test_cadences_of_output_change_no_bit_of_the_dynamics(
    run_folder: Path, edit_config: Callable[..., Path], run: Callable[..., Result], ensemble: str
) -> None:
    if ensemble != "nvt-langevin":
        edit_config(("nvt-langevin", ensemble), ("friction_per_ps = 2", BAROSTAT))
    run()
    expected = RestartFiles("argon.h5md").latest()
    edit_config(
        ("trajectory_every = 2", "trajectory_every = 7\nobservables_every = 1"),
        ("thermo_every = 20", "thermo_every = 3"),
        ("restart_every = 10", "restart_every = 17"),
    )
    run(overwrite=True)
    found = RestartFiles("argon.h5md").latest()
    assert expected is not None
    assert found is not None
    for name, array in expected.arrays.items():
        assert found.arrays[name].tobytes() == array.tobytes(), name
