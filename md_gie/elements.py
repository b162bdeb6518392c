"""Sizes and colours of elements, as ASE tabulates them."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def covalent_radii(numbers: ArrayLike) -> NDArray[np.float64]:
    """Look up covalent radii (N,) in Å.

    Reference: Cordero et al., Dalton Trans. 2832 (2008), doi:10.1039/b801115j.
    """
    from ase.data import covalent_radii as radii

    found: NDArray[np.float64] = radii[np.asarray(numbers, dtype=np.int64)].copy()
    return found


def display_colors(numbers: ArrayLike) -> list[str]:
    """Look up the colours in which Jmol shows elements, as ``#rrggbb``."""
    from ase.data.colors import jmol_colors

    rows = np.rint(255 * jmol_colors[np.asarray(numbers, dtype=np.int64)]).astype(int).tolist()
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in rows]
