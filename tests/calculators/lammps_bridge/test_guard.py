"""Guards in LAMMPS: a run that blows up ends with names and a frame; sound scripts go on."""

import re

import ase.io
import ase.units
import numpy as np
import pytest

from md_gie.calculators.lammps_bridge import attach
from md_gie.errors import SimulationError
from tests.calculators.lammps_bridge.conftest import ELEMENTS, SMOKE

pytestmark = pytest.mark.lammps

SCRIPT = """\
units metal
atom_modify map array
read_data {data}
pair_style none
neigh_modify delay 0
fix gie all external pf/callback 1 1
python gie_attach input 4 SELF gie {model} "O H C dtype=float64 max_temperature_K=2000" &
  format psss here &
  "from md_gie.calculators.lammps_bridge import gie_attach"
python gie_attach invoke
velocity all create 300.0 1
fix move all nve
timestep 0.0005
run 5
timestep 0.01
run 200
print "reached the end"
"""
MOVE = "velocity all create 30.0 1\nfix move all nve\ntimestep 1e-4\n"
TIGHT = {"max_temperature_jump_K": 50.0, "max_energy_jump_eV": 0.01}


@pytest.fixture
def atoms(make_atoms):
    return make_atoms("cubic", 8)


@pytest.fixture
def lmp(atoms, make_lammps, write_data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_lammps(write_data(atoms))


@pytest.mark.parametrize(
    ("front", "ranks"), [("launcher", 1), ("program", 1), ("launcher", 2), ("program", 2)]
)
def test_too_long_a_timestep_ends_every_process(
    front, ranks, request, atoms, write_data, run_process, tmp_path
):
    command = request.getfixturevalue(front)
    if ranks > 1:
        command = request.getfixturevalue("parallel")(command, ranks)
    (tmp_path / "in.lmp").write_text(SCRIPT.format(data=write_data(atoms), model=SMOKE))
    (tmp_path / "gie.failed.extxyz").write_text("years of work")
    done = run_process([*command, "-in", "in.lmp"])
    assert done.returncode == 1, done.stderr
    assert "reached the end" not in done.stdout
    found = re.search(r"LAMMPS ends at step (\d+): the .*; of LAMMPS's ids, (.*)", done.stderr)
    assert found, done.stderr
    assert 5 < int(found[1]) <= 205
    assert "the temperature is" in found[0]
    assert found[2].endswith("the frame is in gie.failed.1.extxyz")
    assert (tmp_path / "gie.failed.extxyz").read_text() == "years of work"
    frame = ase.io.read(tmp_path / "gie.failed.1.extxyz")
    assert list(frame.symbols) == list(atoms.symbols)
    hottest = 1 + ((frame.get_momenta() ** 2).sum(1) / frame.get_masses()).argmax()
    assert re.match(rf"the fastest atoms are {hottest} \(\d", found[2])


@pytest.mark.parametrize(
    ("limit", "value", "message"),
    [
        ("temperature_K", 9.0, r"the temperature is \d+ K, above max_temperature_K = 9"),
        ("temperature_jump_K", 1e-6, r"the temperature went from \d+ to \d+ K, by more than"),
        ("energy_jump_eV", 1e-13, r"the (total|potential) energy changed by [-\d.e]+ eV/atom"),
    ],
)
def test_each_limit_ends_a_run(lmp, atoms, limit, value, message):
    bridge = attach(lmp, SMOKE, ELEMENTS, dtype="float64", **{f"max_{limit}": value})
    lmp.commands_string(MOVE + "run 0")
    bridge.raise_error()
    before = lmp.gather_atoms("x", 1, 3)[:]
    lmp.command("run 10")
    assert lmp.extract_global("ntimestep") == 1
    with pytest.raises(SimulationError, match=f"^{message}") as caught:
        bridge.raise_error()
    assert set(caught.value.data["atoms"]) < set(range(1, 9))
    frame = ase.io.read("gie.failed.extxyz")
    leap = frame.positions - np.reshape(before, (8, 3))
    leap -= np.round(leap / 5.2) * 5.2
    assert 0 < abs(leap).max() < 1e-3
    velocities = frame.get_velocities()
    np.testing.assert_allclose(velocities * atoms_time(1e-4), leap, rtol=1e-2, atol=1e-6)


def atoms_time(picoseconds: float) -> float:
    """Time in ASE's unit."""
    return picoseconds * 1000 * ase.units.fs


SOUND = {
    "velocities between runs": "run 3\nvelocity all create 3000.0 7\nrun 3",
    "displaced between runs": "run 3\ngroup one id 1\ndisplace_atoms one move 0.3 0 0\nrun 3",
    "run 0": "run 3\nrun 0\nvelocity all create 3000.0 7\nrun 0\nrun 3",
    "minimize": "minimize 0 1e-3 20 40\nrun 3\nminimize 0 1e-3 20 40\nrun 3",
    "clock set": "run 3\nreset_timestep 0\nvelocity all create 3000.0 7\nrun 3",
    "fewer atoms": "run 3\ngroup one id 1\ndelete_atoms group one compress no\nrun 3",
    "other elements": "run 3\nset atom 1 type 3\nrun 3",
    "rerun": "run 1\nrerun frames.dump dump x y z",
}


@pytest.mark.parametrize("kind", SOUND)
def test_what_scripts_change_is_no_jump(lmp, atoms, kind, tmp_path):
    frames = []
    for step in range(4):
        frame = atoms.copy()
        frame.rattle(0.1, seed=step)
        rows = [f"{i} {x:.8f} {y:.8f} {z:.8f}" for i, (x, y, z) in enumerate(frame.positions, 1)]
        bounds = "ITEM: BOX BOUNDS xy xz yz pp pp pp\n" + "0 5.2 0\n" * 3
        frames.append(f"ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n8\n{bounds}")
        frames += ["ITEM: ATOMS id x y z\n", "\n".join(rows), "\n"]
    (tmp_path / "frames.dump").write_text("".join(frames))
    bridge = attach(lmp, SMOKE, ELEMENTS, dtype="float64", **TIGHT)
    lmp.commands_string(MOVE + SOUND[kind])
    bridge.raise_error()
    assert bridge.n_calls > 5
    assert not list(tmp_path.glob("*failed*"))


def test_bath_is_no_jump(lmp):
    bridge = attach(lmp, SMOKE, ELEMENTS, dtype="float64", max_energy_jump_eV=0.02)
    lmp.commands_string(MOVE + "run 0")
    before = lmp.get_thermo("etotal")
    lmp.commands_string("timestep 0.0005\nfix bath all langevin 3000 3000 0.002 5\nrun 10")
    bridge.raise_error()
    assert lmp.get_thermo("etotal") - before > 10 * 8 * 0.02
