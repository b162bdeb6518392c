"""Check an installed md_gie: bridges, bundled models, and one evaluation of each model.

Copied elsewhere and run with ``python -I``, it sees the installed package and not the checkout.
"""

from pathlib import Path

import numpy as np
from ase.build import molecule

import md_gie
from md_gie.calculators.ase_calculator import GIECalculator
from md_gie.engine import bundled_models


def main() -> None:
    names = bundled_models()
    if "water-s" not in names:
        raise SystemExit(f"the package bundles the models {names}, water-s is not among them")
    for name in names:
        atoms = molecule("H2O", vacuum=4.0, pbc=True)
        atoms.calc = GIECalculator(name, device="cpu")
        energy, forces = atoms.get_potential_energy(), atoms.get_forces()
        if not (np.isfinite(energy) and np.abs(forces.sum(0)).max() < 1e-4):
            raise SystemExit(f"{name}: energy {energy} eV, sum of forces {forces.sum(0)} eV/Å")
        print(f"{Path(md_gie.__file__).parent.parent.name}: {name} gives {energy:.6f} eV")


if __name__ == "__main__":
    main()
