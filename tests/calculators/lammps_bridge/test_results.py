"""Every quantity that LAMMPS gets, against the ASE calculator on the same geometry."""

import numpy as np
import pytest
from ase import Atoms

from md_gie.calculators.ase_calculator import GIECalculator
from md_gie.calculators.lammps_bridge import attach
from md_gie.calculators.lammps_bridge.checks import KCAL_MOL_PER_EV
from md_gie.neighbors import NeighborCache
from tests.calculators.lammps_bridge.conftest import BAR, ELEMENTS, SMOKE

pytestmark = pytest.mark.lammps

TOLERANCE = 1e-10  # relative to the largest component: the same sums in another order
BOUNDARIES = {"triclinic": "p p p", "cubic": "p p p", "slab": "p p f", "rod-like": "f p f"}


def calculator() -> GIECalculator:
    return GIECalculator(SMOKE, dtype="float64", device="cpu")


def boxed(make_atoms, kind: str) -> Atoms:
    """Atoms in a cell that LAMMPS can have: lower triangular, vacuum on free axes."""
    if kind == "rod-like":
        atoms = make_atoms("cubic", 8)
        atoms.pbc = [False, True, False]
        return atoms
    atoms = make_atoms("cubic" if kind == "slab" else kind, 8)
    if kind == "slab":
        atoms.pbc = [True, True, False]
    return atoms


def forces_by_id(lmp) -> np.ndarray:
    n_own = lmp.extract_setting("nlocal")
    ids = np.array(lmp.numpy.extract_atom("id"))[:n_own]
    return np.array(lmp.numpy.extract_atom("f"))[:n_own][np.argsort(ids)]


def atomic_virials(atoms: Atoms) -> np.ndarray:
    """Symmetric parts xx yy zz xy xz yz (N, 6) in eV, from the engine."""
    engine = atoms.calc.engine
    edges = NeighborCache(engine.cutoff).update(atoms.positions, atoms.cell.array, atoms.pbc)
    made = engine.evaluate(engine.types_of(atoms.numbers), edges, atomic_virials=True)
    virials = made.atomic_virials.numpy()
    virials = (virials + virials.transpose(0, 2, 1)) / 2
    return virials[:, [0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]


def assert_near(got, expected):
    expected = np.asarray(expected)
    assert np.abs(np.asarray(got) - expected).max() <= TOLERANCE * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("kind", BOUNDARIES)
def test_energy_forces_and_pressure(kind, make_atoms, make_lammps, write_data):
    atoms = boxed(make_atoms, kind)
    atoms.calc = calculator()
    lmp = make_lammps(write_data(atoms), boundary=BOUNDARIES[kind])
    attach(lmp, SMOKE, ELEMENTS, dtype="float64")
    lmp.commands_string(
        "compute energies all pe/atom\ncompute virials all stress/atom NULL virial\nrun 0"
    )
    assert_near(lmp.get_thermo("pe"), atoms.get_potential_energy())
    assert_near(forces_by_id(lmp), atoms.get_forces())
    order = np.argsort(lmp.numpy.extract_atom("id"))
    assert_near(
        np.array(lmp.numpy.extract_compute("energies", 1, 1))[order],
        atoms.get_potential_energies(),
    )
    names = ["pxx", "pyy", "pzz", "pyz", "pxz", "pxy"]
    pressure = np.array([lmp.get_thermo(name) for name in names])
    # LAMMPS's own constant for bar has seven digits.
    assert pressure == pytest.approx(-atoms.get_stress() * BAR, rel=1e-6, abs=1e-3)
    shares = np.array(lmp.numpy.extract_compute("virials", 1, 2))[order]  # xx yy zz xy xz yz
    assert shares == pytest.approx(-atomic_virials(atoms) * BAR, rel=1e-6, abs=1e-3)


def test_units_real(make_atoms, make_lammps, write_data):
    atoms = make_atoms("triclinic", 8)
    atoms.calc = calculator()
    lmp = make_lammps(write_data(atoms), units="real")
    attach(lmp, SMOKE, ELEMENTS, dtype="float64")
    lmp.command("run 0")
    assert abs(KCAL_MOL_PER_EV - 23.060547830619) < 1e-11
    assert_near(lmp.get_thermo("pe"), atoms.get_potential_energy() * KCAL_MOL_PER_EV)
    assert_near(forces_by_id(lmp), atoms.get_forces() * KCAL_MOL_PER_EV)
    bar_per_atm = 1.01325
    stress = -atoms.get_stress()[0] * BAR / bar_per_atm
    assert lmp.get_thermo("pxx") == pytest.approx(stress, rel=1e-5)


def test_types_ids_and_places_may_be_any(make_atoms, make_lammps, write_data):
    atoms = make_atoms("triclinic", 8)
    atoms.calc = calculator()
    energy, forces = atoms.get_potential_energy(), atoms.get_forces()
    # Types: H, unused, O, D, C, and O again; ids shuffled; some atoms outside of the box.
    kinds = {"H": [1, 4], "O": [3, 6], "C": [5]}
    types = [kinds[s][i % len(kinds[s])] for i, s in enumerate(atoms.symbols)]
    atoms.positions[2] += atoms.cell[0] - atoms.cell[2]
    order = np.random.default_rng(2).permutation(len(atoms))
    elements = ["H", "NULL", "O", "D", "C", "O"]
    data = write_data(atoms, elements, types=types, order=order)
    lmp = make_lammps(data)
    attach(lmp, SMOKE, elements, dtype="float64")
    lmp.command("run 0")
    assert_near(lmp.get_thermo("pe"), energy)
    assert_near(forces_by_id(lmp), forces)


@pytest.mark.parametrize("style", ["charge", "full"])
def test_atom_styles(style, make_atoms, make_lammps, write_data):
    atoms = make_atoms("cubic", 8)
    atoms.calc = calculator()
    data = write_data(atoms)
    middle = {"charge": "{1} 0.0", "full": "1 {1} 0.0"}[style]
    head, tail = data.read_text().split("Atoms # atomic\n\n")
    rows = [line.split() for line in tail.splitlines()]
    text = "\n".join(f"{r[0]} {middle.format(*r)} {' '.join(r[2:])}" for r in rows)
    data.write_text(f"{head}Atoms # {style}\n\n{text}\n")
    lmp = make_lammps(data, extra=f"atom_style {style}")
    attach(lmp, SMOKE, ELEMENTS, dtype="float64")
    lmp.command("run 0")
    assert_near(lmp.get_thermo("pe"), atoms.get_potential_energy())


def test_forces_of_other_fixes_and_pair_styles_add(make_atoms, make_lammps, write_data):
    atoms = make_atoms("cubic", 8)
    atoms.calc = calculator()
    lmp = make_lammps(write_data(atoms))
    lmp.commands_string("pair_style lj/cut 2.5\npair_coeff * * 0.01 1.0\nrun 0")
    pair, pair_forces = lmp.get_thermo("pe"), forces_by_id(lmp)
    assert abs(pair) > 1e-4
    attach(lmp, SMOKE, ELEMENTS, dtype="float64")
    lmp.commands_string("fix push all addforce 0.1 0.0 0.0\nrun 0")
    assert_near(lmp.get_thermo("pe"), atoms.get_potential_energy() + pair)
    assert_near(forces_by_id(lmp), atoms.get_forces() + pair_forces + [0.1, 0, 0])


def test_two_potentials_add(make_atoms, make_lammps, write_data):
    atoms = make_atoms("cubic", 8)
    atoms.calc = calculator()
    lmp = make_lammps(write_data(atoms))
    for fix in ("one", "two"):
        attach(lmp, SMOKE, ELEMENTS, fix=fix, dtype="float64")
    lmp.command("run 0")
    assert_near(lmp.get_thermo("pe"), 2 * atoms.get_potential_energy())
    assert_near(forces_by_id(lmp), 2 * atoms.get_forces())
