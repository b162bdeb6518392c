"""Runs of every kind in one LAMMPS: dynamics, minimization, barostats, restarts."""

import numpy as np
import pytest
from ase import Atoms

from md_gie.calculators.ase_calculator import GIECalculator
from md_gie.calculators.lammps_bridge import attach
from tests.calculators.lammps_bridge.conftest import BAR, ELEMENTS, SMOKE

pytestmark = pytest.mark.lammps

MOVE = "velocity all create 300.0 4928 mom yes rot no\nfix move all nve\ntimestep 0.0005\n"


@pytest.fixture
def solid(make_atoms) -> Atoms:
    """Atoms at rest: the random model's own minimum near a random structure."""
    from ase.optimize import LBFGS

    atoms = make_atoms("cubic", 8)
    atoms.calc = GIECalculator(SMOKE, dtype="float64", device="cpu")
    LBFGS(atoms, logfile=None).run(fmax=0.02, steps=200)
    return atoms


def state(lmp, elements=ELEMENTS, model=SMOKE) -> Atoms:
    """Atoms that LAMMPS has now, with the ASE calculator."""
    order = np.argsort(lmp.numpy.extract_atom("id"))
    low, high, xy, yz, xz, *_ = lmp.extract_box()
    lengths = np.subtract(high, low)
    cell = np.diag(lengths)
    cell[1, 0], cell[2, 0], cell[2, 1] = xy, xz, yz
    types = np.array(lmp.numpy.extract_atom("type"))[order]
    atoms = Atoms(
        [elements[t - 1] for t in types],
        positions=np.array(lmp.numpy.extract_atom("x"))[order] - low,
        cell=cell,
        pbc=True,
    )
    atoms.calc = GIECalculator(model, dtype="float64", device="cpu")
    return atoms


def test_energy_is_conserved_with_the_square_of_the_timestep(solid, make_lammps, write_data):
    swings = []
    for steps, timestep in ((25, 0.001), (50, 0.0005)):
        lmp = make_lammps(write_data(solid))
        attach(lmp, SMOKE, ELEMENTS, dtype="float64")
        lmp.commands_string(MOVE + f"timestep {timestep}\nrun 0")
        energies = [lmp.get_thermo("etotal")]
        for _ in range(5):
            lmp.command(f"run {steps // 5}")
            energies.append(lmp.get_thermo("etotal"))
        swings.append(np.ptp(energies))
    assert 2.5 < swings[0] / swings[1] < 6.0


def test_barostat_conserves_with_the_square_of_the_timestep(solid, make_lammps, write_data):
    """The conserved quantity drifts as the step squared only if the barostat's virial is right."""
    swings = []
    for steps, timestep in ((20, 0.001), (40, 0.0005)):
        lmp = make_lammps(write_data(solid))
        attach(lmp, SMOKE, ELEMENTS, dtype="float64")
        lmp.commands_string(
            "thermo_style custom step pe econserve\nvelocity all create 300.0 4928 mom yes rot no\n"
            f"fix move all npt temp 300 300 0.1 tri 0 0 0.2\ntimestep {timestep}\nrun 0"
        )
        values = [lmp.get_thermo("econserve")]
        for _ in range(5):
            lmp.command(f"run {steps // 5}")
            values.append(lmp.get_thermo("econserve"))
        swings.append(np.ptp(values))
    assert 2.5 < swings[0] / swings[1] < 6.0


def test_many_runs_equal_one(solid, make_lammps, write_data):
    ends = []
    for commands in (
        "run 12",
        "run 4\nrun 4 \nrun 4",
        "run 12 every 3 NULL",
        "run 6\nrun 0\nrun 6",
    ):
        lmp = make_lammps(write_data(solid))
        bridge = attach(lmp, SMOKE, ELEMENTS, dtype="float64")
        lmp.commands_string(MOVE + commands)
        assert bridge.n_calls >= 13
        ends.append(lmp.get_thermo("etotal"))
    assert ends == pytest.approx([ends[0]] * len(ends), rel=1e-11)


@pytest.fixture
def ice() -> Atoms:
    """Primitive cell of ordered cubic ice in LAMMPS's orientation: two molecules."""
    edge, bond = 6.358, 0.97
    vectors = edge / 2 * (np.ones((3, 3)) - np.eye(3))
    lines = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / 3**0.5
    other = np.full(3, edge / 4)
    places = [np.zeros(3), *(bond * lines[:2]), other, *(other - bond * lines[2:])]
    length = edge / 2**0.5
    cell = length * np.array([[1, 0, 0], [1 / 2, 3**0.5 / 2, 0], [1 / 2, 12**-0.5, (2 / 3) ** 0.5]])
    fractional = np.array(places) @ np.linalg.inv(vectors)
    return Atoms("OHHOHH", scaled_positions=fractional, cell=cell, pbc=True)


def test_minimization_and_box_relaxation(ice, make_lammps, write_data):
    ice.rattle(0.02, seed=1)
    lmp = make_lammps(write_data(ice, ["O", "H"]))
    attach(lmp, "water-s", "O H", dtype="float64")
    lmp.command("run 0")
    before, pressure = lmp.get_thermo("pe"), abs(lmp.get_thermo("press"))
    lmp.command("minimize 0 0.1 20 40")
    assert lmp.get_thermo("pe") < before - 1e-2
    lmp.commands_string(
        "fix relax all box/relax iso 0.0 vmax 0.005\nminimize 0 0.1 20 40\nunfix relax\nrun 0"
    )
    assert abs(lmp.get_thermo("press")) < 0.1 * pressure
    atoms = state(lmp, ["O", "H"], "water-s")
    assert lmp.get_thermo("pe") == pytest.approx(atoms.get_potential_energy(), rel=1e-10)
    assert np.linalg.norm(atoms.get_forces()) < 0.3


def test_pressure_is_the_derivative_of_the_energy_shear_included(
    make_atoms, make_lammps, write_data
):
    lmp = make_lammps(write_data(make_atoms("triclinic", 8)))
    attach(lmp, SMOKE, ELEMENTS, dtype="float64")
    lmp.command("run 0")
    cell, volume = state(lmp).cell.array, lmp.get_thermo("vol")
    rows = (("pxx", "pxy", "pxz"), ("pxy", "pyy", "pyz"), ("pxz", "pyz", "pzz"))
    pressure = np.array([[lmp.get_thermo(name) for name in row] for row in rows]) / BAR
    # dE = -V sum(P * inv(h) dh) for cell vectors h in rows, at fixed lattice coordinates.
    conjugate = pressure @ np.linalg.inv(cell)
    size = 2e-4
    for name, i, j in (
        ("x", 0, 0), ("y", 1, 1), ("z", 2, 2), ("xy", 1, 0), ("xz", 2, 0), ("yz", 2, 1)
    ):  # fmt: skip
        span = "0.0 " if i == j else ""
        energies = []
        for value in (cell[i, j] + size, cell[i, j] - size):
            lmp.command(f"change_box all {name} final {span}{value:.17g} remap units box")
            lmp.command("run 0")
            energies.append(lmp.get_thermo("pe"))
        lmp.command(f"change_box all {name} final {span}{cell[i, j]:.17g} remap units box")
        slope = (energies[0] - energies[1]) / (2 * size)
        assert -slope / volume == pytest.approx(conjugate[j, i], rel=1e-5, abs=1e-6)


def test_constant_pressure_expands_a_compressed_cell(solid, make_lammps, write_data):
    solid.set_cell(solid.cell * 0.98, scale_atoms=True)
    lmp = make_lammps(write_data(solid), extra="box tilt large")
    attach(lmp, SMOKE, ELEMENTS, dtype="float64")
    lmp.command("change_box all triclinic")
    lmp.command("run 0")
    before, pressure = lmp.get_thermo("vol"), lmp.get_thermo("press")
    lmp.commands_string(
        "velocity all create 10.0 4928 mom yes rot no\ntimestep 0.0005\n"
        "fix move all npt temp 10 10 0.05 tri 0 0 0.1\nrun 60"
    )
    assert np.sign(lmp.get_thermo("vol") - before) == np.sign(pressure)


def test_clear_and_restart(solid, make_lammps, write_data, tmp_path):
    lmp = make_lammps(write_data(solid))
    attach(lmp, SMOKE, ELEMENTS, dtype="float64")
    lmp.commands_string(MOVE + f"run 5\nwrite_restart {tmp_path}/state")
    energy = lmp.get_thermo("pe")
    lmp.commands_string(f"clear\nread_restart {tmp_path}/state\npair_style none")
    attach(lmp, SMOKE, ELEMENTS, dtype="float64")
    lmp.command("run 0")
    assert lmp.get_thermo("pe") == pytest.approx(energy, rel=1e-12)


def test_rerun(solid, make_lammps, write_data, tmp_path):
    lmp = make_lammps(write_data(solid))
    attach(lmp, SMOKE, ELEMENTS, dtype="float64")
    lmp.commands_string(
        MOVE + f"dump d all custom 5 {tmp_path}/d id type x y z\n"
        "dump_modify d format float %.17g\nrun 10\nundump d"
    )
    energy = lmp.get_thermo("pe")
    lmp.command("displace_atoms all random 0.05 0.05 0.05 1")
    lmp.command(f"rerun {tmp_path}/d dump x y z")
    assert lmp.get_thermo("pe") == pytest.approx(energy, rel=1e-10)


def test_list_is_kept_while_it_is_good(solid, make_lammps, write_data):
    lmp = make_lammps(write_data(solid))
    bridge = attach(lmp, SMOKE, ELEMENTS, dtype="float64", skin=1.0)
    lmp.commands_string(MOVE + "atom_modify sort 2 1.0\nneigh_modify every 1 delay 0 check no\n")
    lmp.command("run 20")
    cache = bridge._forces._cache
    assert cache.n_builds == 1
    assert cache.n_reuses == 20


def test_shared_forces_in_a_barostat_are_those_of_one_process(
    solid, make_lammps, write_data, monkeypatch
):
    """All copies are periodic images here; the box moves, and the plan of copies with it."""
    from mpi4py import MPI

    from md_gie.calculators.lammps_bridge.api import LammpsAPI
    from md_gie.calculators.lammps_bridge.parallel import ParallelForces

    rows = []
    for communicator in (None, MPI.COMM_SELF):
        monkeypatch.setattr(LammpsAPI, "communicator", lambda self, c=communicator: c)
        lmp = make_lammps(write_data(solid))
        bridge = attach(lmp, SMOKE, ELEMENTS, dtype="float64", skin=0.2)
        lmp.commands_string(
            "velocity all create 600.0 4928 mom yes rot no\ntimestep 0.001\n"
            "fix move all npt temp 600 600 0.1 tri 0 0 0.05\nrun 30"
        )
        bridge.raise_error()
        rows.append([lmp.get_thermo(name) for name in ("etotal", "press", "vol", "pxy", "xy")])
    assert isinstance(bridge._forces, ParallelForces)
    assert 1 < bridge._forces.n_plans < 25
    assert rows[1] == pytest.approx(rows[0], rel=1e-8, abs=1e-7)
