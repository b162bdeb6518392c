"""Structures of the benchmarks."""

import numpy as np
from ase import Atoms
from ase.build import bulk

LATTICE_CONSTANT = 3.567  # Å, diamond
RATTLE = 0.02  # Å


def diamond(n_atoms: int, seed: int = 1, rattle: float = RATTLE) -> Atoms:
    """Rattled diamond in a box as near to a cube as ``n_atoms`` = 8 a b c allows."""
    cells = n_atoms // 8
    if 8 * cells != n_atoms:
        raise SystemExit(f"diamond needs a multiple of 8 atoms, not {n_atoms}")
    a = next(k for k in range(round(cells ** (1 / 3)), 0, -1) if cells % k == 0)
    b = next(k for k in range(round((cells / a) ** 0.5), 0, -1) if cells // a % k == 0)
    atoms = bulk("C", "diamond", a=LATTICE_CONSTANT, cubic=True).repeat((a, b, cells // a // b))
    noise = np.random.default_rng(seed).normal(scale=rattle, size=atoms.positions.shape)
    atoms.positions += noise
    return atoms
