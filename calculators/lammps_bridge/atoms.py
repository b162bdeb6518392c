"""Atoms and box of a LAMMPS process, in an order that LAMMPS's sorting does not change."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from md_gie.calculators.lammps_bridge.api import LammpsAPI
from md_gie.errors import ConfigError


class Box(NamedTuple):
    """Simulation box.

    Attributes
    ----------
    cell : (3, 3) float64, Å
        Lattice vectors in rows: (lx, 0, 0), (xy, ly, 0), (xz, yz, lz).
    pbc : (3,) bool
    origin : (3,) float64, Å
        Corner of the box on periodic axes, 0 on others.
    """

    cell: NDArray[np.float64]
    pbc: NDArray[np.bool_]
    origin: NDArray[np.float64]


def read_box(api: LammpsAPI) -> Box:
    """Read the box as it is now."""
    corner = api.numbers("boxlo", 3)
    cell = np.diag(api.numbers("boxhi", 3) - corner)
    if api.setting("triclinic"):
        for (row, column), name in (((1, 0), "xy"), ((2, 0), "xz"), ((2, 1), "yz")):
            cell[row, column] = api.numbers(name, 1)[0]
    pbc = api.numbers("periodicity", 3, np.int32) != 0
    return Box(cell, pbc, np.where(pbc, corner, 0.0))


class OwnAtoms:
    """Atoms that this process owns, in the order of their ids.

    LAMMPS sorts its atoms in space now and then. In the order of the ids a neighbor list stays
    good, and sums have the same order on every machine.

    Attributes
    ----------
    ids : (n,) int64
        Ascending.
    order : (n,) int64
        Place of each atom in LAMMPS's arrays.
    types : (n,) int64
        LAMMPS's types, from 1.
    positions : (n, 3) float64, Å
        From the box's corner: a barostat that scales about the middle of the box moves that, too.
    """

    def __init__(self, api: LammpsAPI) -> None:
        self._api = api
        self._raw_ids = np.zeros(0, np.int64)
        self.ids = np.zeros(0, np.int64)
        self.order = np.zeros(0, np.int64)
        self.types = np.zeros(0, np.int64)
        self.positions = np.zeros((0, 3))

    def read(self, n_own: int, box: Box) -> bool:
        """Read the current state.

        Returns
        -------
        bool
            Whether other atoms are owned than before, or atoms have other types.

        Raises
        ------
        ConfigError
            If LAMMPS numbers no atoms (``atom_modify id no``).
        """
        raw_ids = self._api.atoms("id", n_own)
        other_atoms = False
        if not np.array_equal(raw_ids, self._raw_ids):
            self._raw_ids = raw_ids.copy()
            self.order = np.argsort(raw_ids, kind="stable")
            ids = raw_ids[self.order].astype(np.int64)
            if len(ids) and ids[0] < 1:
                raise ConfigError(
                    "the atoms have no ids (atom_modify id no), but forces must find their atoms; "
                    "take that command out of the script"
                )
            other_atoms = not np.array_equal(ids, self.ids)
            self.ids = ids
        types = self._api.atoms("type", n_own)[self.order].astype(np.int64)
        other_types = other_atoms or not np.array_equal(types, self.types)
        self.types = types
        self.positions = self._api.atoms("x", n_own)[self.order] - box.origin
        return other_types

    def to_lammps(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values (n, ...) in the order of the ids, put into LAMMPS's order."""
        out = np.empty_like(values)
        out[self.order] = values
        return out
