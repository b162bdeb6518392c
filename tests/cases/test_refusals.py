"""Overlapping atoms and unknown elements: a clear error, nothing written, nothing spoiled."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ase import Atoms, units
from ase.build import bulk
from ase.io import Trajectory
from ase.md.verlet import VelocityVerlet

from md_gie.calculators.ase_calculator import GIECalculator
from md_gie.errors import StructureError

Make = Callable[..., GIECalculator]
MODEL = Path(__file__).parents[1] / "data" / "dpa4" / "p0_smoke.pt"


def _molecule() -> tuple[Atoms, str, float]:
    return Atoms("OO", positions=np.zeros((2, 3))), "0 and 1", 0.0


def _one_pair() -> tuple[Atoms, str, float]:
    atoms = bulk("C", "fcc", a=3.6, cubic=True).repeat(2)
    atoms.positions[5] = atoms.positions[9] + [0.03, 0.0, -0.04]
    return atoms, "5 and 9", 0.05


def _pair_of_images() -> tuple[Atoms, str, float]:
    atoms, pair, distance = _one_pair()
    atoms.positions[5] += atoms.cell.array @ [1, -2, 3]
    return atoms, pair, distance


def _doubled() -> tuple[Atoms, str, float]:
    atoms = bulk("C", "fcc", a=3.6, cubic=True)
    return atoms + atoms, r"(\d) and \d", 0.0


@pytest.mark.parametrize("case", [_molecule, _one_pair, _pair_of_images, _doubled])
def test_atoms_on_top_of_each_other(
    calculator: GIECalculator, case: Callable[[], tuple[Atoms, str, float]], tmp_path: Path
) -> None:
    atoms, pair, distance = case()
    atoms.calc = calculator
    with pytest.raises(StructureError, match=rf"atoms {pair} are {distance:g} Å apart") as caught:
        atoms.get_potential_energy()
    first, second = sorted(caught.value.data["atoms"])
    apart = atoms.get_distance(first, second, mic=bool(atoms.pbc.any()))
    assert apart == pytest.approx(distance, abs=1e-9)

    with Trajectory(tmp_path / "run.traj", "w", atoms) as trajectory:
        dynamics = VelocityVerlet(atoms, units.fs)
        dynamics.attach(trajectory.write)
        with pytest.raises(StructureError):
            dynamics.run(5)
    assert dynamics.nsteps == 0
    with Trajectory(tmp_path / "run.traj") as frames:
        assert len(frames) == 0
    assert calculator.results == {}


def test_dynamics_stops_when_atoms_collide(calculator: GIECalculator, tmp_path: Path) -> None:
    atoms = Atoms("OC", positions=[[0, 0, 0], [0, 0, 1.5]], calculator=calculator)
    atoms.set_velocities([[0, 0, 0], [0, 0, -0.3 / units.fs]])
    dynamics = VelocityVerlet(atoms, units.fs)
    with Trajectory(tmp_path / "run.traj", "w", atoms) as trajectory:
        dynamics.attach(trajectory.write)
        with pytest.raises(StructureError, match="atoms 0 and 1"):
            dynamics.run(30)
    with Trajectory(tmp_path / "run.traj") as frames:
        assert len(frames) == dynamics.nsteps + 1 > 3
        for frame in frames:
            assert np.isfinite(frame.get_forces()).all()
            assert np.isfinite(frame.get_potential_energy())
            assert frame.get_distance(0, 1) > 0.2


def test_unknown_element_then_a_good_structure(
    make_calculator: Make, evaluate: Any, assert_same: Any
) -> None:
    good = bulk("C", "diamond", a=3.6, cubic=True)
    good.rattle(0.1, seed=2)
    bad = good.copy()
    bad.symbols[[1, 6]] = ["Xe", "Fe"]
    calculator = make_calculator()
    for _ in range(2):
        with pytest.raises(StructureError) as caught:
            calculator.get_potential_energy(bad)
        assert caught.value.data["symbols"] == ["Fe", "Xe"]
        assert caught.value.data["indices"] == [1, 6]
        assert caught.value.data["species"] == ("O", "H", "C")
        for word in ("Fe, Xe", "indices 1, 6", "O, H, C"):
            assert word in str(caught.value)
        assert_same(evaluate(calculator, good), evaluate(make_calculator(), good))


GLOBAL_STATE = """
import sys
import numpy as np, torch
from ase import Atoms
from ase.build import bulk

def state():
    return (
        torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_inference_mode_enabled(),
        torch.get_num_threads(), torch.get_num_interop_threads(),
        torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32, torch.are_deterministic_algorithms_enabled(),
        torch.initial_seed(), torch.get_rng_state().sum().item(), torch.get_default_device(),
        np.random.get_state()[1].sum(), str(np.geterr()),
    )

readings = [state()]
import md_gie
from md_gie import GIECalculator, load_potential
readings.append(state())
calculators = [GIECalculator(sys.argv[1], dtype=d, device="cpu") for d in ("float32", "float64")]
readings.append(state())
# With edges enough for threads, and not: parallel kernels take long to compile, for each dtype.
crystals = [bulk("C", "fcc", a=3.6, cubic=True).repeat(3), bulk("C", "fcc", a=3.6)]
for calculator, crystal in zip(calculators, crystals):
    try:
        calculator.get_forces(Atoms("Fe"))
    except ValueError:
        readings.append(state())
    calculator.get_stress(crystal)
    readings.append(state())
assert len(readings) == 7
assert all(reading == readings[0] for reading in readings), readings
print("unchanged")
"""


def test_global_state_is_left_alone() -> None:
    command = [sys.executable, "-W", "error", "-c", GLOBAL_STATE, str(MODEL)]
    # Starting numba's threads sets OpenMP's number, which is PyTorch's too, unless it is put back.
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout == "unchanged\n", done.stderr


def test_calculators_of_different_precision_in_turns(evaluate: Any) -> None:
    structures = [bulk("C", "diamond", a=3.6, cubic=True) for _ in range(3)]
    for seed, atoms in enumerate(structures):
        atoms.rattle(0.1, seed=seed)
    single, double = (GIECalculator(MODEL, dtype=name) for name in ("float32", "float64"))
    expected = {
        (name, number): evaluate(GIECalculator(MODEL, dtype=name), atoms)
        for name in ("float32", "float64")
        for number, atoms in enumerate(structures)
    }
    for number, atoms in enumerate(structures):
        for name, calculator in (("float32", single), ("float64", double)):
            got, fresh = evaluate(calculator, atoms), expected[name, number]
            tolerance = {"float32": 1e-6, "float64": 1e-13}[name]
            largest = abs(fresh.forces).max()
            np.testing.assert_allclose(got.forces, fresh.forces, atol=tolerance * largest, rtol=0)
            assert got.energy == pytest.approx(fresh.energy, rel=tolerance)
        difference = abs(expected["float32", number].forces - fresh.forces).max()
        assert 0 < difference < 1e-4 * largest
