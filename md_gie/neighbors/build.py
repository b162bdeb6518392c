"""Neighbor searches of libraries, behind one signature."""

import importlib.util
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from md_gie.neighbors.geometry import Bools, Floats, plane_spacings

VESIN_MAX_CELLS = 100_000  # beyond, vesin 0.6 rescales its grid and may divide by zero
VESIN_MAX_CELLS_ALONG_AXIS = 2_000  # beyond, nearly empty grids take seconds
COINCIDENCE_STEPS = 1e9


class Pairs(NamedTuple):
    """Directed pairs of a search, every image apart, in any order.

    Attributes
    ----------
    dst, src : (P,) int64
        Receiving and sending atom.
    shift : (P, 3) int64
        Image of ``src``: the pair's vector is ``positions[src] - positions[dst] + shift @ cell``.
    """

    dst: Tensor
    src: Tensor
    shift: Tensor


Builder = Callable[[Tensor, Floats, Bools, float], Pairs]


def build_matscipy(positions: Tensor, cell: Floats, pbc: Bools, cutoff: float) -> Pairs:
    """All pairs closer than ``cutoff`` by matscipy-neighbours on the CPU, sorted by ``dst``."""
    from matscipy_neighbours import neighbour_list

    found = neighbour_list(
        "ijS", positions=positions.cpu().numpy(), cell=cell, pbc=pbc, cutoff=cutoff
    )
    arrays = (np.ascontiguousarray(array, dtype=np.int64) for array in found)
    return Pairs(*(torch.from_numpy(array).to(positions.device) for array in arrays))


def build_vesin(positions: Tensor, cell: Floats, pbc: Bools, cutoff: float) -> Pairs:
    """All pairs closer than ``cutoff`` by vesin where it is safe, else by :func:`build_matscipy`.

    vesin 0.6 kills the process when a sparse system needs more than 1e5 grid cells. On CUDA it
    loses pairs of atoms at exactly the same place, and raises when an atom has more pairs than it
    has room for.
    """
    from vesin import NeighborList

    if not vesin_is_safe(positions, cell, pbc, cutoff) or has_coincident(positions, cell, pbc):
        return build_matscipy(positions, cell, pbc, cutoff)
    search = NeighborList(cutoff=cutoff, full_list=True, sorted=False)
    box = torch.from_numpy(cell).to(positions.device)
    periodic = torch.from_numpy(pbc).to(positions.device)
    try:
        pairs, shift = search.compute(
            points=positions, box=box, periodic=periodic, quantities="PS", copy=True
        )
    except RuntimeError:
        return build_matscipy(positions, cell, pbc, cutoff)
    pairs, shift = pairs.to(torch.int64), shift.to(torch.int64)
    return Pairs(pairs[:, 0].contiguous(), pairs[:, 1].contiguous(), shift)


def vesin_is_safe(positions: Tensor, cell: Floats, pbc: Bools, cutoff: float) -> bool:
    """Whether vesin's grid stays below the sizes at which it crashes or crawls."""
    spans = positions.amax(dim=0) - positions.amin(dim=0)
    # A free axis of a cell that is not orthogonal may need the whole diagonal.
    extents = np.where(pbc, plane_spacings(cell, pbc), float(spans.norm()))
    cells = np.maximum(1.0, np.floor(extents / cutoff))
    return bool(cells.prod() <= VESIN_MAX_CELLS and cells.max() <= VESIN_MAX_CELLS_ALONG_AXIS)


def has_coincident(positions: Tensor, cell: Floats, pbc: Bools) -> bool:
    """Whether two atoms, or images of them, agree to 1e-9 of a lattice vector (Å on free axes)."""
    fractional = positions @ torch.from_numpy(np.linalg.inv(cell)).to(positions.device)
    steps = torch.round(fractional * COINCIDENCE_STEPS)
    period = np.where(pbc, COINCIDENCE_STEPS, np.inf)
    steps = torch.remainder(steps, torch.from_numpy(period).to(positions.device))
    return bool(torch.unique(steps, dim=0).shape[0] < positions.shape[0])


BUILDERS: dict[str, Builder] = {"matscipy": build_matscipy, "vesin": build_vesin}
_MODULES = {"matscipy": "matscipy_neighbours", "vesin": "vesin"}


def choose_builder(backend: str, device: torch.device) -> Builder:
    """Builder named ``backend``; ``auto`` is matscipy on a CPU and vesin, if installed, on CUDA.

    Raises
    ------
    ValueError
        Unknown name, or a library that is not installed.
    """
    if backend == "auto":
        on_device = device.type == "cuda" and is_installed("vesin")
        return BUILDERS["vesin" if on_device else "matscipy"]
    if backend not in BUILDERS:
        raise ValueError(
            f"neighbor backend {backend!r} is unknown; possible are auto, {', '.join(BUILDERS)}"
        )
    if not is_installed(backend):
        raise ValueError(
            f"neighbor backend {backend!r} needs the package {_MODULES[backend]}, which is not "
            "installed; install it or take backend='auto'"
        )
    return BUILDERS[backend]


def is_installed(backend: str) -> bool:
    """Whether the library of ``backend`` can be imported."""
    return importlib.util.find_spec(_MODULES[backend]) is not None
