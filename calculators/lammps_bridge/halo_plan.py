"""Which atoms each process needs of which other: copies within a radius of its own atoms."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from md_gie.calculators.lammps_bridge.atoms import Box
from md_gie.neighbors.geometry import complete_cell, plane_spacings

MARGIN = 1e-9  # Å; slack for rounding where an atom is just within the radius


class Extent(NamedTuple):
    """Where a process has atoms: bounds (3,) in lattice coordinates (Å on free axes).

    A process without atoms has ``lower > upper``.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


class Sending(NamedTuple):
    """What a process sends, grouped by receiver.

    Attributes
    ----------
    atoms : (S,) int64
        Own atom that each copy is of.
    images : (S, 3) float64
        Lattice translation of each copy, whole numbers.
    counts : (P,) int64
        Copies for each process.
    """

    atoms: NDArray[np.int64]
    images: NDArray[np.float64]
    counts: NDArray[np.int64]


def lattice_coordinates(positions: NDArray[np.float64], box: Box) -> NDArray[np.float64]:
    """Coordinates (n, 3) along the lattice vectors, along unit normals on free axes."""
    coordinates: NDArray[np.float64] = positions @ np.linalg.inv(complete_cell(box.cell, box.pbc))
    return coordinates


def own_extent(coordinates: NDArray[np.float64]) -> Extent:
    """Bounds of a process's atoms."""
    if not len(coordinates):
        return Extent(np.full(3, np.inf), np.full(3, -np.inf))
    return Extent(coordinates.min(0), coordinates.max(0))


def plan_sending(
    coordinates: NDArray[np.float64], extents: list[Extent], rank: int, box: Box, radius: float
) -> Sending:
    """Find the copies of own atoms, images included, that each process needs.

    Parameters
    ----------
    coordinates : (n, 3) float64
        Own atoms, from :func:`lattice_coordinates`.
    extents : list of P extents
        Where each process has atoms.
    rank : int
        Own number; an atom itself is no copy for its own process, its images are.
    box : Box
    radius : float, Å
        No atom that is closer to an atom of a process may be missing there.
    """
    margin = (radius + MARGIN) / plane_spacings(box.cell, box.pbc)
    atoms, images = [], []
    for number, extent in enumerate(extents):
        found, shifts = _within(coordinates, extent, margin, box.pbc)
        if number == rank:
            copies = shifts.any(1)
            found, shifts = found[copies], shifts[copies]
        atoms.append(found)
        images.append(shifts)
    counts = np.array([len(found) for found in atoms], np.int64)
    return Sending(np.concatenate(atoms), np.concatenate(images), counts)


def _within(
    coordinates: NDArray[np.float64],
    extent: Extent,
    margin: NDArray[np.float64],
    pbc: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Atoms and images whose coordinates are within the extent and its margin."""
    if not len(coordinates) or (extent.lower > extent.upper).any():
        return np.zeros(0, np.int64), np.zeros((0, 3))
    first = np.ceil(extent.lower - margin - coordinates)
    last = np.floor(extent.upper + margin - coordinates)
    # On a free axis there is the atom itself or nothing.
    first, last = (
        np.where(pbc, bound, clipped)
        for bound, clipped in ((first, np.maximum(first, 0.0)), (last, np.minimum(last, 0.0)))
    )
    spans = np.maximum(last - first + 1.0, 0.0).astype(np.int64)
    totals = spans.prod(1)
    atoms = np.repeat(np.arange(len(coordinates)), totals)
    starts = np.cumsum(totals) - totals
    place = np.arange(len(atoms)) - starts[atoms]
    shifts = np.empty((len(atoms), 3))
    for axis in (2, 1, 0):
        place, digit = np.divmod(place, spans[atoms, axis])
        shifts[:, axis] = first[atoms, axis] + digit
    return atoms, shifts
