"""Guarded integrators of ASE: sound runs go on, others stop with a frame and names."""

from collections.abc import Callable
from pathlib import Path

import ase.io
import numpy as np
import pytest
from ase import Atoms, units
from ase.calculators.emt import EMT
from ase.io.trajectory import Trajectory
from ase.md.langevin import Langevin
from ase.md.md import MolecularDynamics
from ase.md.verlet import VelocityVerlet
from ase.optimize import BFGS

from md_gie import DynamicsGuard
from md_gie.calculators.ase_calculator import GIECalculator
from md_gie.errors import SimulationError, StructureError

Make = Callable[..., GIECalculator]


@pytest.fixture
def warm(
    crystal: Atoms, make_calculator: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Atoms:
    """Return the crystal at 300 K with the small model, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    crystal.calc = make_calculator("p0_smoke")
    rng = np.random.default_rng(1)
    widths = np.sqrt(crystal.get_masses() * units.kB * 300)
    crystal.set_momenta(rng.normal(size=(len(crystal), 3)) * widths[:, None])
    return crystal


def verlet(atoms: Atoms, timestep_fs: float = 0.5) -> MolecularDynamics:
    return VelocityVerlet(atoms, timestep_fs * units.fs)


def langevin(atoms: Atoms) -> MolecularDynamics:
    rng = np.random.default_rng(2)
    return Langevin(
        atoms, 0.5 * units.fs, temperature_K=3000, friction=0.5 / units.fs, fixcm=False, rng=rng
    )


@pytest.mark.parametrize(("driver", "bath"), [(verlet, False), (langevin, True)])
def test_sound_runs_go_on(
    warm: Atoms,
    count: Callable[..., Callable[[], int]],
    driver: Callable[[Atoms], MolecularDynamics],
    bath: bool,
    tmp_path: Path,
) -> None:
    evaluations = count(warm.calc)
    totals = [warm.get_total_energy()]
    with driver(warm) as dynamics, DynamicsGuard(dynamics):
        dynamics.attach(lambda: totals.append(warm.get_total_energy()))
        dynamics.run(15)
        dynamics.run(15)
    assert evaluations() == 31
    assert dynamics.nsteps == 30
    largest = abs(np.diff(totals)).max() / len(warm)
    assert (largest > 0.1) == bath  # the limit, which holds for a potential energy that stays
    assert not list(tmp_path.iterdir())


def test_too_long_a_timestep_stops_with_names_and_the_frame(warm: Atoms) -> None:
    dynamics = verlet(warm, 50)
    with pytest.raises(SimulationError) as caught, DynamicsGuard(dynamics, "blown.xyz"):
        dynamics.run(200)
    step, atoms = caught.value.data["step"], caught.value.data["atoms"]
    assert str(caught.value).startswith(f"step {step}: the ")
    assert step == dynamics.nsteps < 20
    assert str(caught.value).endswith("the frame is in blown.xyz")
    frame = ase.io.read("blown.xyz")
    np.testing.assert_allclose(frame.positions, warm.positions, atol=1e-7)
    kinetic = (frame.get_momenta() ** 2).sum(1) / frame.get_masses()
    assert atoms == np.argsort(-kinetic)[:3].tolist()
    assert f"the fastest atoms are {atoms[0]} (" in str(caught.value)
    np.testing.assert_allclose(frame.get_forces(), warm.get_forces(), atol=1e-6)


def test_frame_spares_other_files(warm: Atoms, tmp_path: Path) -> None:
    Path("failed.extxyz").write_text("years of work")
    for number in (1, 2):
        with pytest.raises(SimulationError, match=rf"in failed\.{number}\.extxyz$"):
            DynamicsGuard(verlet(warm), max_temperature_K=1.0).__enter__()
        assert len(ase.io.read(f"failed.{number}.extxyz")) == len(warm)
    assert Path("failed.extxyz").read_text() == "years of work"


def test_frame_that_cannot_be_written_does_not_hide_the_failure(warm: Atoms) -> None:
    message = r"^step 0: the temperature is \d+ K, above .* the frame is not saved \(.*missing"
    guard = DynamicsGuard(verlet(warm), "missing/failed.extxyz", max_temperature_K=1.0)
    with pytest.raises(SimulationError, match=message):
        guard.__enter__()


@pytest.mark.parametrize(
    ("limit", "value", "message"),
    [
        ("temperature_K", 9.0, r"step 0: the temperature is \d+ K, above max_temperature_K = 9"),
        (
            "temperature_jump_K",
            1e-3,
            r"step 1: the temperature went from \d+ to \d+ K, by more than",
        ),
        ("energy_jump_eV", 1e-13, r"step 1: the (total|potential) energy changed by [-\d.e]+ eV/a"),
    ],
)
def test_each_limit_stops_a_run(warm: Atoms, limit: str, value: float, message: str) -> None:
    dynamics = verlet(warm)
    guard = DynamicsGuard(dynamics, **{f"max_{limit}": value})
    with pytest.raises(SimulationError, match=f"^{message}"), guard:
        dynamics.run(3)


def test_what_the_calculator_refuses_in_a_run_keeps_the_frame(warm: Atoms) -> None:
    towards = 0.1 * warm.get_distance(0, 1, mic=True, vector=True)
    velocities = np.zeros((8, 3))
    velocities[0] = towards / (0.5 * units.fs)  # on the other atom in the tenth step
    warm.set_velocities(velocities)
    dynamics = verlet(warm)
    names = ("max_temperature_K", "max_temperature_jump_K", "max_energy_jump_eV")
    guard = DynamicsGuard(dynamics, **dict.fromkeys(names, np.inf))
    with pytest.raises(SimulationError) as caught, guard:
        dynamics.run(20)
    step = caught.value.data["step"]
    assert str(caught.value).startswith(f"step {step}: atoms 0 and 1 are ")
    assert step == dynamics.nsteps + 1
    assert isinstance(caught.value.__cause__, StructureError)
    frame = ase.io.read("failed.extxyz")
    assert frame.get_distance(0, 1, mic=True) == pytest.approx(caught.value.data["distance"])


def test_overlap_at_the_start_is_a_mistake_in_the_structure(warm: Atoms, tmp_path: Path) -> None:
    warm.positions[3] = warm.positions[0] + [0.1, 0, 0]
    with pytest.raises(StructureError, match=r"^atoms 0 and 3 are 0\.1 Å apart"):
        DynamicsGuard(verlet(warm)).__enter__()
    assert not list(tmp_path.iterdir())


def test_any_calculator_and_a_resumed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    atoms = Atoms("Cu2", positions=[[0, 0, 0], [0, 0, 2.4]])
    atoms.calc = EMT()
    dynamics = VelocityVerlet(atoms, 5 * units.fs)
    with DynamicsGuard(dynamics):
        dynamics.run(5)
    atoms.positions[1, 2] = 1.2  # a leap of some eV, which the next block does not know of
    dynamics.dt = 0.1 * units.fs
    with DynamicsGuard(dynamics, max_energy_jump_eV=0.5):
        dynamics.run(2)
    assert dynamics.nsteps == 7
    assert not list(tmp_path.iterdir())
    guard = DynamicsGuard(dynamics, max_energy_jump_eV=0.5)
    dynamics.dt = 20 * units.fs
    with pytest.raises(SimulationError, match=r"^step 8: "), guard:
        dynamics.run(1)


def test_leaves_the_integrator_as_it_was(warm: Atoms) -> None:
    dynamics = verlet(warm)
    with Trajectory("run.traj", "w", warm) as trajectory:
        dynamics.attach(trajectory)
        before = list(dynamics.observers)
        with DynamicsGuard(dynamics):
            dynamics.run(2)
        assert dynamics.observers == before
        dynamics.run(1)
    assert len(ase.io.read("run.traj", ":")) == 4


def test_other_errors_pass(warm: Atoms, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), DynamicsGuard(verlet(warm)):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_optimizers_are_refused(warm: Atoms) -> None:
    with pytest.raises(TypeError, match=r"^BFGS is no molecular dynamics of ASE"):
        DynamicsGuard(BFGS(warm))
