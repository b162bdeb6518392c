"""ASE's integrators, optimizers and filters on the calculator."""

from collections.abc import Callable

import numpy as np
import pytest
from ase import Atoms, units
from ase.calculators.lj import LennardJones
from ase.calculators.mixing import LinearCombinationCalculator, SumCalculator
from ase.constraints import FixAtoms
from ase.filters import FrechetCellFilter
from ase.md.langevin import Langevin
from ase.md.md import MolecularDynamics
from ase.md.nose_hoover_chain import MTKNPT
from ase.md.verlet import VelocityVerlet
from ase.mep import NEB
from ase.optimize import BFGS, FIRE

from md_gie.calculators.ase_calculator import GIECalculator

Make = Callable[..., GIECalculator]
Count = Callable[[GIECalculator], Callable[[], int]]


@pytest.fixture
def warm(crystal: Atoms, make_calculator: Make) -> Atoms:
    """Return the crystal at 300 K with the small model."""
    crystal.calc = make_calculator("p0_smoke")
    heat(crystal, 300)
    return crystal


def heat(atoms: Atoms, temperature_K: float) -> None:
    rng = np.random.default_rng(1)
    widths = np.sqrt(atoms.get_masses() * units.kB * temperature_K)
    atoms.set_momenta(rng.normal(size=(len(atoms), 3)) * widths[:, None])


def verlet(atoms: Atoms) -> MolecularDynamics:
    return VelocityVerlet(atoms, 0.5 * units.fs)


def langevin(atoms: Atoms) -> MolecularDynamics:
    rng = np.random.default_rng(2)
    return Langevin(
        atoms, 0.5 * units.fs, temperature_K=300, friction=0.01 / units.fs, fixcm=False, rng=rng
    )


def barostat(atoms: Atoms) -> MolecularDynamics:
    damping = {"tdamp": 50 * units.fs, "pdamp": 500 * units.fs}
    return MTKNPT(atoms, 0.5 * units.fs, temperature_K=300, pressure_au=0.0, **damping)


@pytest.mark.parametrize("driver", [verlet, langevin, barostat])
def test_one_evaluation_a_step(
    warm: Atoms, count: Count, driver: Callable[[Atoms], MolecularDynamics]
) -> None:
    evaluations = count(warm.calc)
    start = warm.positions.copy()
    driver(warm).run(20)
    assert evaluations() == 21
    warm.get_stress()
    assert evaluations() == 0
    assert np.isfinite(warm.positions).all()
    assert abs(warm.positions - start).max() > 1e-3


def test_energy_is_conserved(make_calculator: Make, crystal: Atoms) -> None:
    """Velocity Verlet's error falls with the square of the time step, so it is no drift."""
    crystal.calc = make_calculator("p0_water_mini")
    heat(crystal, 600)
    swings = []
    for n_steps in (40, 80):
        atoms = crystal.copy()
        atoms.calc = crystal.calc
        totals, potentials = [], []
        dynamics = VelocityVerlet(atoms, 20 / n_steps * units.fs)
        for _ in dynamics.irun(n_steps):
            totals.append(atoms.get_total_energy())
            potentials.append(atoms.get_potential_energy())
        swings.append(np.ptp(totals))
        assert np.ptp(totals) < 0.02 * np.ptp(potentials)
    assert swings[1] < 0.35 * swings[0]


def test_fixed_atoms_stay(warm: Atoms) -> None:
    raw = warm.get_forces()
    warm.set_constraint(FixAtoms([0, 5]))
    warm.set_momenta(warm.get_momenta())
    start = warm.positions.copy()
    assert not warm.get_forces()[[0, 5]].any()
    np.testing.assert_array_equal(warm.get_forces(apply_constraint=False), raw)
    np.testing.assert_array_equal(warm.calc.get_forces(warm), raw)
    verlet(warm).run(10)
    np.testing.assert_array_equal(warm.positions[[0, 5]], start[[0, 5]])
    assert (warm.positions != start)[[1, 2, 3, 4, 6, 7]].all()


@pytest.mark.parametrize("optimizer", [FIRE, BFGS])
def test_relaxation_lowers_the_energy(
    make_calculator: Make, make_atoms: Callable[..., Atoms], optimizer: type[FIRE] | type[BFGS]
) -> None:
    atoms = make_atoms("molecule", 5)
    atoms.calc = make_calculator()
    energy, largest = atoms.get_potential_energy(), abs(atoms.get_forces()).max()
    optimizer(atoms, logfile=None).run(fmax=1e-3, steps=40)
    assert atoms.get_potential_energy() < energy - 1e-3
    assert abs(atoms.get_forces()).max() < 0.7 * largest


def test_cell_relaxation_lowers_the_enthalpy(make_calculator: Make, crystal: Atoms) -> None:
    pressure = 0.5 * units.GPa
    crystal.calc = make_calculator()

    def enthalpy() -> float:
        energy: float = crystal.get_potential_energy()
        return energy + pressure * crystal.get_volume()

    before, volume = enthalpy(), crystal.get_volume()
    BFGS(FrechetCellFilter(crystal, scalar_pressure=pressure), logfile=None).run(1e-3, steps=15)
    assert enthalpy() < before - 1e-3
    assert crystal.get_volume() != volume


def test_sums_with_other_calculators(make_calculator: Make, crystal: Atoms) -> None:
    ours, other = make_calculator(), LennardJones(sigma=2.0, epsilon=0.05, rc=4.0)
    for mixed, weights in (
        (SumCalculator([ours, other]), (1.0, 1.0)),
        (LinearCombinationCalculator([ours, other], [0.25, 2.0]), (0.25, 2.0)),
    ):
        atoms = crystal.copy()
        atoms.calc = mixed
        for name in ("energy", "forces", "stress"):
            parts = [calc.get_property(name, crystal) for calc in (ours, other)]
            expected = sum(w * part for w, part in zip(weights, parts, strict=True))
            got = mixed.get_property(name, atoms)
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)


def test_images_of_a_band_share_a_calculator(make_calculator: Make, crystal: Atoms) -> None:
    images = [crystal.copy() for _ in range(4)]
    for number, image in enumerate(images):
        image.positions[0] += number * np.array([0.2, 0.1, 0])
    shared = make_calculator()
    expected = [make_calculator().get_forces(image) for image in images[1:-1]]
    for image in images:
        image.calc = shared
    band = NEB(images, k=0.0, allow_shared_calculator=True, method="string")
    band.get_forces()
    for image, forces in zip(images[1:-1], expected, strict=True):
        np.testing.assert_allclose(image.get_forces(), forces, rtol=0, atol=1e-12)
