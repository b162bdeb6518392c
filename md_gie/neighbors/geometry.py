"""Checks on positions and cell before any library sees them, and the geometry of mixed pbc."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from md_gie.errors import NeighborOverflowError, StructureError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MAX_IMAGES = 1_000_000
MAX_EDGES = 2**31 - 1  # edge numbers are int32
MAX_COORDINATE = 1e10  # Å; float64 resolves 2e-6 Å there
MIN_INDEPENDENCE = 1e-6  # smallest singular value of the unit lattice vectors
_AXES = "abc"


def check_geometry(positions: Floats, cell: Floats, pbc: Bools, cutoff: float) -> None:
    """Refuse a configuration for which a neighbor search has no right answer or no end.

    Parameters
    ----------
    positions : (N, 3) float64, Å
        Cartesian coordinates, wrapped or not.
    cell : (3, 3) float64, Å
        Lattice vectors in rows; rows of non-periodic axes may be anything finite.
    pbc : (3,) bool
        Periodic axes.
    cutoff : float, Å
        Radius of the search, skin included.

    Raises
    ------
    StructureError
        Non-finite or immense numbers, linearly dependent periodic vectors, or a cell so thin
        that the cutoff reaches more than a million images.
    NeighborOverflowError
        More edges expected than int32 can number.
    ValueError
        A cutoff that is not positive and finite, or an argument of another shape.
    """
    if not (math.isfinite(cutoff) and cutoff > 0):
        raise ValueError(f"cutoff is {cutoff!r} Å; it must be a positive number")
    for name, array, shape in (("cell", cell, (3, 3)), ("pbc", pbc, (3,))):
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}; it must be {shape}")
    if positions.ndim != 2 or positions.shape[1] != 3:
        raise ValueError(f"positions have shape {positions.shape}; they must be (N, 3)")
    _check_numbers(positions, cell)
    _check_rank(cell, pbc)
    _check_images(cell, pbc, cutoff)
    _check_edges(positions, cell, pbc, cutoff)


def _check_numbers(positions: Floats, cell: Floats) -> None:
    bad = ~np.isfinite(positions).all(axis=1)
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise StructureError(
            f"{int(bad.sum())} of {len(positions)} positions are not finite, the first is atom "
            f"{first} at {positions[first].tolist()}; positions must be finite numbers in Å",
            atoms=np.flatnonzero(bad),
        )
    if not np.isfinite(cell).all():
        raise StructureError(
            f"the cell {cell.tolist()} is not finite; give three lattice vectors in Å, or zeros "
            "on axes without periodicity",
            cell=cell.copy(),
        )
    for name, array in (("position", positions), ("cell component", cell)):
        largest = float(np.abs(array).max(initial=0.0))
        if largest > MAX_COORDINATE:
            raise StructureError(
                f"the largest {name} is {largest:.3g} Å, where float64 resolves only "
                f"{np.spacing(largest):.1g} Å; at most {MAX_COORDINATE:g} Å is possible: wrap or "
                "shift the atoms, or look for a simulation that has blown up",
                largest=largest,
            )


def _check_rank(cell: Floats, pbc: Bools) -> None:
    lengths = np.linalg.norm(cell, axis=1)
    for axis in np.flatnonzero(pbc):
        if lengths[axis] == 0.0:
            raise StructureError(
                f"lattice vector {_AXES[axis]} is zero but its axis is periodic; give the vector "
                f"or set pbc[{axis}] to False",
                axes=[int(axis)],
            )
    if pbc.any():
        unit = cell[pbc] / lengths[pbc, None]
        smallest = float(np.linalg.svd(unit, compute_uv=False)[-1])
        if smallest < MIN_INDEPENDENCE:
            names = ", ".join(_AXES[axis] for axis in np.flatnonzero(pbc))
            raise StructureError(
                f"the periodic lattice vectors {names} are linearly dependent, or nearly so "
                f"(smallest singular value of their directions {smallest:.1e}, at least "
                f"{MIN_INDEPENDENCE:g} is needed); give independent vectors or switch off pbc",
                axes=np.flatnonzero(pbc).tolist(),
            )


def _check_images(cell: Floats, pbc: Bools, cutoff: float) -> None:
    spacings = plane_spacings(cell, pbc)
    reach = np.where(pbc, 2.0 * np.ceil(cutoff / spacings) + 1.0, 1.0)
    n_images = float(reach.prod())
    if n_images > MAX_IMAGES:
        thin = int(np.argmin(np.where(pbc, spacings, np.inf)))
        raise StructureError(
            f"the lattice planes along {_AXES[thin]} are only {spacings[thin]:.3g} Å apart, so a "
            f"radius of {cutoff:g} Å reaches {n_images:.3g} periodic images (at most "
            f"{MAX_IMAGES:g} are searched); check that the cell is in Å and has not collapsed, or "
            f"set pbc[{thin}] to False",
            spacings=spacings,
            n_images=n_images,
        )


def _check_edges(positions: Floats, cell: Floats, pbc: Bools, cutoff: float) -> None:
    if not len(positions):
        return
    full = complete_cell(cell, pbc)
    fractional = positions @ np.linalg.inv(full)
    # Free axes are unit normals: padding by the cutoff gives a cluster's surface its empty half.
    extents = np.ptp(fractional, axis=0) + 2.0 * cutoff
    volume = abs(float(np.linalg.det(full))) * float(np.where(pbc, 1.0, extents).prod())
    expected = len(positions) ** 2 * (4.0 / 3.0 * math.pi * cutoff**3) / volume
    if expected > MAX_EDGES:
        raise NeighborOverflowError(
            f"{len(positions)} atoms in {volume:.3g} Å³ have about {expected:.2g} neighbor pairs "
            f"within {cutoff:g} Å, more than the {MAX_EDGES} that can be numbered; check the cell, "
            "or use fewer atoms or a smaller cutoff",
            needed=expected,
            capacity=MAX_EDGES,
        )


def complete_cell(cell: Floats, pbc: Bools) -> Floats:
    """Cell with the rows of non-periodic axes replaced by unit normals to the periodic ones."""
    full = np.array(cell, dtype=np.float64)
    n_periodic = int(np.count_nonzero(pbc))
    if n_periodic == 0:
        return np.eye(3)
    if n_periodic < 3:
        rows = full[pbc]
        # Unit rows, so that a needle's long and short vectors weigh the same in the null space.
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        full[~pbc] = np.linalg.svd(rows)[2][n_periodic:]
    return full


def plane_spacings(cell: Floats, pbc: Bools) -> Floats:
    """Distances (3,) in Å between lattice planes; one on non-periodic axes."""
    inverse = np.linalg.inv(complete_cell(cell, pbc))
    spacings: Floats = 1.0 / np.linalg.norm(inverse, axis=0)
    return spacings


def find_wraps(positions: Tensor, cell: Floats, pbc: Bools) -> Tensor:
    """Integer lattice coordinates (N, 3) float64 of the box that holds each atom."""
    inverse = np.linalg.inv(complete_cell(cell, pbc))
    # Written out: a matrix product may round differently from one thread count to another.
    x, y, z = positions.unbind(1)
    wraps = torch.zeros_like(positions)
    for axis in np.flatnonzero(pbc):
        a, b, c = (float(value) for value in inverse[:, axis])
        wraps[:, axis] = torch.floor((x * a + y * b) + z * c)
    return wraps


def wrap_positions(positions: Tensor, wraps: Tensor, cell: Floats) -> Tensor:
    """Positions moved back by ``wraps`` boxes, (N, 3) float64 in Å."""
    u, v, w = wraps.unbind(1)
    columns = [
        position - ((u * float(a) + v * float(b)) + w * float(c))
        for position, (a, b, c) in zip(positions.unbind(1), cell.T, strict=True)
    ]
    return torch.stack(columns, dim=1)


def deformation_between(before: Floats, after: Floats, pbc: Bools) -> Floats:
    """Matrix F (3, 3) with ``before[pbc] @ F = after[pbc]``, the identity on free directions."""
    change = np.linalg.pinv(before[pbc]) @ (after[pbc] - before[pbc])
    deformation: Floats = np.eye(3) + change
    return deformation


def image_table(cell: Floats, extents: tuple[int, int, int]) -> Floats:
    """Lattice vectors (T, 3) in Å of all shifts within ``extents``, in lexicographic order."""
    ranges = [np.arange(-extent, extent + 1, dtype=np.float64) for extent in extents]
    u, v, w = (grid.reshape(-1, 1) for grid in np.meshgrid(*ranges, indexing="ij"))
    # The same order of additions for S and -S: opposite shifts get exactly opposite vectors.
    table: Floats = (u * cell[0] + v * cell[1]) + w * cell[2]
    return table
