"""What the three-dimensional view shows: whole molecules in the cell, bonds, a few frames."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components

from md_gie.elements import covalent_radii, display_colors
from md_gie.neighbors import NeighborCache
from md_gie.structure import symbols_of
from md_gie.trajectory import Frame, TrajectoryHeader

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_ATOMS = 20_000
"""Larger systems are not drawn: browsers would not turn them smoothly."""

_STRETCH = 1.2  # a bond is at most this times the sum of covalent radii
_SAME_PLACE_A = 0.01
_MOST_COORDINATES = 60_000
_MOST_FRAMES = 40


def scene(frames: Sequence[Frame], header: TrajectoryHeader) -> dict[str, Any] | None:
    """Describe frames for the viewer; None if there are too many atoms.

    Parameters
    ----------
    frames : sequence of Frame
        At least one; the last is shown first.
    header : TrajectoryHeader

    Returns
    -------
    dict of JSON values
        ``symbols``, and for each symbol ``colors`` and ``radii``; ``frames``, each with time,
        positions (Å, two decimals), pairs of bonded atoms, and the cell.
    """
    if len(header.numbers) > MOST_ATOMS:
        return None
    numbers = np.unique(header.numbers)
    symbols = symbols_of(numbers)
    radii, colors = covalent_radii(numbers), display_colors(numbers)
    return {
        "symbols": list(symbols_of(header.numbers)),
        "colors": dict(zip(symbols, colors, strict=True)),
        "radii": dict(zip(symbols, radii.tolist(), strict=True)),
        "periodic": list(header.pbc),
        "frames": [_describe(frame, header) for frame in frames],
    }


def frames_to_show(n_frames: int, n_atoms: int) -> list[int]:
    """Choose evenly spaced frames, the last one always, that a page can carry."""
    most = max(1, min(_MOST_FRAMES, _MOST_COORDINATES // (3 * n_atoms)))
    step = max(1, -(-n_frames // most))
    return list(range(n_frames - 1, -1, -step))[::-1]


def _describe(frame: Frame, header: TrajectoryHeader) -> dict[str, Any]:
    positions, bonds = whole_molecules(frame, header)
    return {
        "time_ps": round(frame.time_fs / 1000, 6),
        "positions": np.round(positions, 2).ravel().tolist(),
        "bonds": bonds.ravel().tolist(),
        "cell": np.round(frame.cell, 3).tolist(),
    }


def whole_molecules(frame: Frame, header: TrajectoryHeader) -> tuple[Floats, Integers]:
    """Move atoms by lattice vectors so that molecules are whole, their middles in the cell.

    Returns
    -------
    positions : (N, 3) float64, Å
    bonds : (B, 2) int64
        Those between atoms as they are placed: none of those that a crystal has through the
        faces of the cell.
    """
    positions = np.asarray(frame.positions, dtype=np.float64)
    pbc = np.array(header.pbc)
    radii = covalent_radii(header.numbers)
    cache = NeighborCache(_STRETCH * 2.0 * float(radii.max()), skin=0.0)
    edges = cache.update(positions, frame.cell, pbc)
    first, second = edges.dst.numpy().astype(np.int64), edges.src.numpy().astype(np.int64)
    vectors = edges.vectors.numpy()
    lengths = np.linalg.norm(vectors, axis=1)
    bonded = (lengths < _STRETCH * (radii[first] + radii[second])) & (first != second)
    first, second, vectors = first[bonded], second[bonded], vectors[bonded]
    molecules = connected_components(_graph(first, second, len(positions)), directed=False)[1]
    placed = _unfold(positions, first, second, vectors, molecules)
    # A molecule that no unfolding makes whole goes on through the faces of the cell: a crystal.
    torn = np.linalg.norm(placed[second] - placed[first] - vectors, axis=1) > _SAME_PLACE_A
    crystals = np.unique(molecules[first[torn]])
    loose = np.isin(molecules, crystals)
    molecules = np.where(loose, len(positions) + np.arange(len(positions)), molecules)
    placed = _into_cell(placed, molecules, frame.cell, pbc)
    ends = placed[second] - placed[first]
    drawn = (np.linalg.norm(ends - vectors, axis=1) < _SAME_PLACE_A) & (first < second)
    return placed, np.stack([first[drawn], second[drawn]], axis=1)


def _unfold(
    positions: Floats, first: Integers, second: Integers, vectors: Floats, molecules: Integers
) -> Floats:
    """Place each atom at the end of a bond from an atom of its molecule that is placed."""
    graph = _graph(first, second, len(positions))
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    bonds = {pair: number for number, pair in enumerate(pairs)}
    placed = positions.copy()
    _, roots = np.unique(molecules, return_index=True)
    for root in roots.tolist():
        order, parents = breadth_first_order(graph, root, directed=False)
        for atom, parent in zip(order[1:].tolist(), parents[order[1:]].tolist(), strict=True):
            # An edge's vector leads from its destination, here the parent, to its source.
            placed[atom] = placed[parent] + vectors[bonds[parent, atom]]
    return placed


def _into_cell(
    positions: Floats, molecules: Integers, cell: Floats, pbc: NDArray[np.bool_]
) -> Floats:
    if not pbc.any():
        return positions
    _, molecules, sizes = np.unique(molecules, return_inverse=True, return_counts=True)
    sums = [np.bincount(molecules, positions[:, axis]) for axis in range(3)]
    periodic = cell[pbc]
    boxes = np.floor(np.stack(sums, axis=1) / sizes[:, None] @ np.linalg.pinv(periodic))
    result: Floats = positions - (boxes @ periodic)[molecules]
    return result


def _graph(first: Integers, second: Integers, n_atoms: int) -> Any:
    ones = np.ones(len(first))
    return coo_matrix((ones, (first, second)), shape=(n_atoms, n_atoms)).tocsr()
