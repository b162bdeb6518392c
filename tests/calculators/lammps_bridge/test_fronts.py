"""One script on every build and number of ranks: the same numbers, and those of ASE."""

import contextlib

import numpy as np
import pytest
from ase import Atoms

from md_gie.calculators.ase_calculator import GIECalculator
from md_gie.calculators.lammps_bridge import attach
from tests.calculators.lammps_bridge.conftest import BAR, SMOKE, thermo_rows

pytestmark = pytest.mark.lammps

SCRIPT = """\
units metal
atom_modify map array
box tilt large
read_data {data}
pair_style none
fix gie all external pf/callback 1 1
python gie_attach input 4 SELF gie {model} "O H C dtype=float64 {options}" format psss here &
  "from md_gie.calculators.lammps_bridge import gie_attach"
python gie_attach invoke
compute energies all pe/atom
compute energy all reduce sum c_energies
compute virials all stress/atom NULL virial
compute virial all reduce sum c_virials[1] c_virials[4]
thermo 1
thermo_style custom step pe etotal press pxx pyy pzz pxy pxz pyz c_energy c_virial[1] &
  c_virial[2] vol
thermo_modify format float %.15g norm no
dump first all custom 1 first.dump id fx fy fz
dump_modify first sort id format float %.17g
run 0
undump first
velocity all create 50.0 4928 mom yes rot no
fix move all nve
timestep 0.0002
variable turn loop 3
label again
run 1
next turn
jump SELF again
unfix move
fix move all npt temp 30 30 0.05 tri 0 0 0.5
run 2 every 1 "print 'on the way'"
unfix move
minimize 0 1e-3 2 4
write_restart state
clear
read_restart state
pair_style none
thermo_style custom step pe etotal press
thermo_modify format float %.15g norm no
fix gie all external pf/callback 1 1
python gie_attach input 4 SELF gie {model} "O H C dtype=float64 {options}" format psss here &
  "from md_gie.calculators.lammps_bridge import gie_attach"
python gie_attach invoke
run 0
"""
LAST = 'print "reached the end"'
TOLERANCE = 1e-9  # the step-0 rounding of sums, after some steps of a random model


@pytest.fixture
def crystal(make_atoms) -> Atoms:
    atoms = make_atoms("triclinic", 8)
    return atoms.repeat((2, 1, 1))


@pytest.fixture
def run_front(request, crystal, write_data, run_process, tmp_path):
    """Run the script on a front; thermo rows by number of columns, and forces at step 0."""

    def run(front: str, ranks: int, options: str):
        command = request.getfixturevalue(front)
        if ranks > 1:
            command = request.getfixturevalue("parallel")(command, ranks)
        text = (SCRIPT + LAST).format(data=write_data(crystal), model=SMOKE, options=options)
        if "wide" in options:  # slow: the first rows only
            text = text[: text.index("velocity")] + LAST
        (tmp_path / "in.lmp").write_text(text)
        done = run_process([*command, "-in", "in.lmp"])
        assert done.returncode == 0, done.stderr
        assert "reached the end" in done.stdout
        rows = thermo_rows(done.stdout)
        forces = np.loadtxt(tmp_path / "first.dump", skiprows=9)[:, 1:]
        return rows, forces

    return run


@pytest.fixture
def expected(crystal):
    crystal.calc = GIECalculator(SMOKE, dtype="float64", device="cpu")
    return crystal


def check(rows: np.ndarray, forces: np.ndarray, expected: Atoms) -> None:
    """Step 0 is that of ASE; energies and virials of atoms add up, in every row."""
    largest = np.abs(expected.get_forces()).max()
    assert np.abs(forces - expected.get_forces()).max() <= 1e-10 * largest
    assert rows[0, 1] == pytest.approx(expected.get_potential_energy(), rel=1e-10)
    stress = expected.get_stress()[[0, 1, 2, 5, 4, 3]]
    assert rows[0, 4:10] == pytest.approx(-stress * BAR, rel=1e-6, abs=1e-3)
    assert rows[:, 10] == pytest.approx(rows[:, 1], rel=1e-10)
    assert rows[0, 11:13] == pytest.approx(-rows[0, [4, 7]] * rows[0, 13], rel=1e-9)


@pytest.fixture(scope="module")
def seen() -> list[np.ndarray]:
    """Rows of the front that ran first."""
    return []


@pytest.mark.parametrize(
    ("front", "ranks", "options"),
    [
        ("launcher", 1, ""),
        ("program", 1, ""),
        ("program", 2, ""),
        ("launcher", 2, "skin=0.3"),
        ("launcher", 2, "halo=wide"),
    ],
)
def test_script_gives_the_same_numbers_everywhere(front, ranks, options, run_front, expected, seen):
    rows, forces = run_front(front, ranks, options)
    whole = "wide" not in options
    check(rows[:-1] if whole else rows, forces, expected)
    if whole:
        # After clear and read_restart the last state is found again.
        assert rows[-1, 1] == pytest.approx(rows[-2, 1], rel=1e-9)
    if not seen:
        seen.append(rows)
    first = seen[0][: len(rows), :11]
    assert rows[:, :11] == pytest.approx(first, rel=TOLERANCE, abs=1e-6, nan_ok=True)


MPI_SCRIPT = """\
units metal
atom_modify map array
processors * 1 1
boundary f f f
region box block 0 40 0 20 0 20
create_box 3 box
{atoms}
mass 1 15.999
mass 2 1.008
mass 3 12.011
pair_style none
fix gie all gie {model} O H C dtype=float64 max_temperature_K=inf
velocity all set 500.0 0.0 0.0
fix move all nve
timestep 0.0005
thermo 20
variable x equal xcm(all,x)
thermo_style custom step pe etotal v_x
thermo_modify format float %.15g norm no
run {steps}
"""


def fly_alone(package, folder) -> np.ndarray:
    """Rows of the same flight in this process."""
    lines = (folder / "in.lmp").read_text().splitlines()
    hook = next(i for i, line in enumerate(lines) if line.startswith("fix gie"))
    with contextlib.closing(package(cmdargs=["-screen", "none", "-log", "log"])) as lmp:
        lmp.commands_list(lines[:hook])
        attach(lmp, SMOKE, "O H C", dtype="float64", max_temperature_K="inf")
        lmp.commands_list(lines[hook + 1 :])
    return thermo_rows((folder / "log").read_text())


def test_cluster_flies_from_one_process_to_the_other(
    make_atoms, package, launcher, parallel, run_process, tmp_path, monkeypatch
):
    """One process begins without atoms, the other one ends without."""
    monkeypatch.chdir(tmp_path)
    atoms = make_atoms("molecule", 7)
    atoms.positions += [9.0, 8.0, 8.0]
    kinds = {"O": 1, "H": 2, "C": 3}
    lines = [
        f"create_atoms {kinds[s]} single {x:.12g} {y:.12g} {z:.12g}"
        for s, (x, y, z) in zip(atoms.symbols, atoms.positions, strict=True)
    ]
    text = MPI_SCRIPT.format(atoms="\n".join(lines), model=SMOKE, steps=60)
    (tmp_path / "in.lmp").write_text(text)
    done = run_process([*parallel(launcher, 2), "-in", "in.lmp"])
    assert done.returncode == 0, done.stderr
    two = thermo_rows(done.stdout)
    one = fly_alone(package, tmp_path)
    assert one[0, 3] < 15.0
    assert one[-1, 3] > 25.0
    assert two[:, 2] == pytest.approx(one[:, 2], rel=1e-8)
    assert np.ptp(one[:, 2]) < 0.02 * abs(one[0, 2])
