"""How far from the minimum a structure is, and how well float32 can tell."""

from typing import NamedTuple

import numpy as np
from ase import Atoms

from md_gie.calculators.ase_calculator import GIECalculator
from md_gie.relax.config import RelaxTable
from md_gie.units import EV_A3_GPA


class Noise(NamedTuple):
    """Largest error of a force in eV/Å, and of the stress in GPa (0 without a cell)."""

    force_eV_A: float
    stress_GPa: float


NONE = Noise(0.0, 0.0)


class Residual(NamedTuple):
    """Largest force on an atom that may move, and largest stress, None with a fixed cell."""

    force_eV_A: float
    stress_GPa: float | None

    def is_within(self, relax: RelaxTable) -> bool:
        """Tell whether it is below the limits."""
        stress = self.stress_GPa
        return self.force_eV_A <= relax.max_force_eV_A and (
            stress is None or stress <= relax.max_stress_GPa
        )

    def is_noise(self, relax: RelaxTable, noise: Noise) -> bool:
        """Tell whether all that is above a limit is no more than an error of float32."""
        force = self.force_eV_A <= max(relax.max_force_eV_A, noise.force_eV_A)
        stress = self.stress_GPa
        return (
            noise != NONE
            and force
            and (stress is None or stress <= max(relax.max_stress_GPa, noise.stress_GPa))
        )


def residual_of(
    relax: RelaxTable, atoms: Atoms, calculator: GIECalculator | None = None
) -> Residual:
    """Measure atoms, by their own calculator or by another."""
    if calculator is not None:
        atoms = atoms.copy()
        atoms.calc = calculator
    force = float(np.linalg.norm(atoms.get_forces(), axis=1).max())
    if relax.cell == "fixed":
        return Residual(force, None)
    tensor = atoms.get_stress(voigt=False) * EV_A3_GPA + relax.pressure_GPa * np.eye(3)
    if relax.cell == "volume":
        tensor = np.eye(3) * tensor.trace() / 3.0
    return Residual(force, float(np.abs(tensor).max()))


def force_noise(atoms: Atoms, exact: GIECalculator) -> Noise:
    """Compare the results of an atoms' own calculator with a float64 one.

    Below such forces an optimizer follows rounding and not the potential.

    Parameters
    ----------
    atoms : ase.Atoms
        With the calculator that the relaxation uses.
    exact : GIECalculator
        The same model in float64.
    """
    twin = atoms.copy()
    twin.calc = exact
    forces = atoms.get_forces(apply_constraint=False) - twin.get_forces(apply_constraint=False)
    stress = 0.0
    if "stress" in atoms.calc.results:
        stress = float(np.abs(atoms.get_stress() - twin.get_stress()).max()) * EV_A3_GPA
    return Noise(float(np.linalg.norm(forces, axis=1).max()), stress)
