"""NeighborCache: a Verlet list that is rebuilt only when an atom or the cell has moved too far."""

import math
from numbers import Real
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from md_gie.neighbors.build import Pairs, choose_builder
from md_gie.neighbors.compaction import CPUPass
from md_gie.neighbors.device_compaction import DevicePass
from md_gie.neighbors.geometry import (
    MAX_COORDINATE,
    Bools,
    Floats,
    check_geometry,
    complete_cell,
    deformation_between,
    find_wraps,
    image_table,
    wrap_positions,
)
from md_gie.neighbors.skin_list import Anchor, Extents, SkinList, StepPass
from md_gie.ops import Edges
from md_gie.ops.launch import has_triton

S = TypeVar("S", bound=np.generic)

# Å. Slack for rounding at the two borders where a pair may be seen or missed.
MARGIN = 1e-9
# Å. A list with a wider skin holds many times the edges and saves no build.
MAX_SKIN = 20.0


class ReferenceState(NamedTuple):
    """Configuration at the last build, from which the same list can be built again.

    Attributes
    ----------
    positions : (N, 3) float64, Å
        As they were given.
    cell : (3, 3) float64, Å
    pbc : (3,) bool
    """

    positions: NDArray[np.float64]
    cell: NDArray[np.float64]
    pbc: NDArray[np.bool_]


class NeighborCache:
    """Edges of successive configurations, from a list that is kept while it is good.

    The list holds all pairs within ``cutoff + skin``. It stays complete while no two atoms can
    have come closer by more than the skin: with F the deformation of the cell since the build
    and u the largest displacement from the positions deformed by F, while
    ``norm(inv(F)) (cutoff + 2 u) <= cutoff + skin``. Moving atoms by whole lattice vectors does
    not count as a displacement. The order of the edges depends only on the configuration at the
    build. An instance serves one thread at a time.

    Parameters
    ----------
    cutoff : float, Å
        Edges shorter than this are returned.
    skin : float, Å
        Zero searches anew at every call.
    device : str or torch.device
        Where edges are made and returned.
    backend : str
        Library that builds: ``auto``, ``matscipy`` or ``vesin``.

    Attributes
    ----------
    n_builds, n_reuses : int
        Calls that built the list, and that used the one at hand.

    Raises
    ------
    ValueError
        Cutoff not positive, skin negative, or a backend unknown or not installed.

    References
    ----------
    Verlet, Phys. Rev. 159, 98 (1967), doi:10.1103/PhysRev.159.98.
    """

    def __init__(
        self,
        cutoff: float,
        skin: float = 0.5,
        *,
        device: str | torch.device = "cpu",
        backend: str = "auto",
    ) -> None:
        if not (_is_real(cutoff) and math.isfinite(cutoff) and cutoff > 0):
            raise ValueError(f"cutoff is {cutoff!r} Å; it must be a positive number")
        if not (_is_real(skin) and 0 <= skin <= MAX_SKIN):
            raise ValueError(f"skin is {skin!r} Å; it must be a number from 0 to {MAX_SKIN:g}")
        self.cutoff = float(cutoff)
        self.skin = float(skin)
        self.device = torch.device(device)
        self.n_builds = 0
        self.n_reuses = 0
        self._builder = choose_builder(backend, self.device)
        self._pass: StepPass = _pass_for(self.device)
        self.reset()

    def reset(self) -> None:
        """Forget the list: the next update builds. Counters stay."""
        self._anchor: Anchor | None = None
        self._listed: SkinList | None = None
        self._table: tuple[Floats, Floats] | None = None
        self._coincident: int | Tensor = -1
        self._cell: tuple[Tensor, int, Floats] | None = None

    def update(
        self, positions: Tensor | ArrayLike, cell: Tensor | ArrayLike, pbc: Tensor | ArrayLike
    ) -> Edges:
        """Edges of a configuration.

        Parameters
        ----------
        positions : (N, 3), Å
            Cartesian coordinates, wrapped or not; float64 is used.
        cell : (3, 3), Å
            Lattice vectors in rows; rows of non-periodic axes are ignored.
        pbc : (3,) bool
            Periodic axes.

        Returns
        -------
        Edges
            All pairs with ``1e-10 Å < distance < cutoff``, sorted by destination, source and
            image. The caller's to keep; atoms at the same place are reported by
            :meth:`coincident_pair` instead.

        Raises
        ------
        StructureError, NeighborOverflowError, ValueError
            As :func:`~md_gie.neighbors.check_geometry`.
        """
        here = self._on_device(positions)
        box, periodic = self._box(cell), _on_host(pbc, np.bool_)
        found = self._follow(here, box, periodic)
        if found is None:
            wrapped = self._build(here, box, periodic)
            assert self._listed is not None
            table = self._image_table(box)
            found = self._pass.compact(self._listed, wrapped, table, self.cutoff)
            self.n_builds += 1
        else:
            self.n_reuses += 1
        edges, self._coincident = found
        return edges

    def coincident_pair(self) -> tuple[int, int] | None:
        """Two atoms (or one and its own image) closer than 1e-10 Å at the last update, if any."""
        number = int(self._coincident)
        if number < 0 or self._listed is None:
            return None
        return int(self._listed.dst[number]), int(self._listed.src[number])

    def reference_state(self) -> ReferenceState | None:
        """Return the configuration at the last build, for :meth:`restore`; None before it."""
        anchor = self._anchor
        if anchor is None:
            return None
        positions = anchor.positions.cpu().numpy().copy()
        return ReferenceState(positions, anchor.cell.copy(), anchor.pbc.copy())

    def restore(self, state: ReferenceState | None) -> None:
        """Build the list of an earlier :meth:`reference_state`, with the same order of edges."""
        self.reset()
        if state is None:
            return
        positions, cell, pbc = state
        self._build(self._on_device(positions), _on_host(cell, np.float64), _on_host(pbc, np.bool_))
        self.n_builds += 1

    def _on_device(self, positions: Tensor | ArrayLike) -> Tensor:
        if not isinstance(positions, Tensor):
            positions = torch.tensor(np.asarray(positions, dtype=np.float64))
        return positions.detach().to(self.device, torch.float64).contiguous()

    def _box(self, cell: Tensor | ArrayLike) -> Floats:
        """Cell on the host; one that stays the same tensor is fetched from a device once."""
        if not isinstance(cell, Tensor):
            return _on_host(cell, np.float64)
        if self._cell is None or self._cell[0] is not cell or self._cell[1] != cell._version:
            self._cell = (cell, cell._version, _on_host(cell, np.float64))
        return self._cell[2]

    def _follow(
        self, positions: Tensor, cell: Floats, pbc: Bools
    ) -> tuple[Edges, int | Tensor] | None:
        anchor, listed = self._anchor, self._listed
        if (
            anchor is None
            or listed is None
            or positions.shape != anchor.positions.shape
            or not np.array_equal(pbc, anchor.pbc)
            or cell.shape != (3, 3)
            or not np.abs(cell).max() <= MAX_COORDINATE
        ):
            return None
        deformation, limit = np.eye(3), self.skin / 2
        if not np.array_equal(cell[pbc], anchor.cell[pbc]):
            deformation = deformation_between(anchor.cell, cell, pbc)
            smallest = float(np.linalg.svd(deformation, compute_uv=False)[-1])
            limit = ((self.cutoff + self.skin) * smallest - self.cutoff) / 2
        limit -= MARGIN
        if limit < 0:
            return None
        table = self._image_table(cell)
        return self._pass.step(
            positions, anchor, listed, cell, deformation, limit, table, self.cutoff
        )

    def _build(self, positions: Tensor, cell: Floats, pbc: Bools) -> Tensor:
        self.reset()
        radius = self.cutoff + self.skin
        check_geometry(positions.cpu().numpy(), cell, pbc, radius)
        wraps = find_wraps(positions, cell, pbc)
        wrapped = wrap_positions(positions, wraps, cell)
        if positions.shape[0]:
            # Wider than the list, whose own test then decides both directions of a pair alike.
            full = complete_cell(cell, pbc)
            wide = radius + MARGIN + 64 * float(np.spacing(wrapped.abs().max().item()))
            pairs = self._builder(wrapped, full, pbc, wide)
        else:
            pairs = _no_pairs(self.device)
        extents = _extents(pairs.shift)
        table = image_table(cell, extents)
        self._listed = self._pass.pack(pairs, wrapped, table, extents, radius)
        self._anchor = Anchor(positions.clone(), cell, pbc, wrapped, wraps, extents)
        self._table = (cell, table)
        return wrapped

    def _image_table(self, cell: Floats) -> Floats:
        assert self._anchor is not None
        if self._table is None or not np.array_equal(self._table[0], cell):
            self._table = (cell, image_table(cell, self._anchor.extents))
        return self._table[1]


def _pass_for(device: torch.device) -> StepPass:
    if device.type == "cpu":
        return CPUPass()
    if device.type == "cuda" and has_triton():
        from md_gie.neighbors.gpu import TritonPass

        return TritonPass()
    return DevicePass()


def _is_real(value: Any) -> bool:
    return isinstance(value, Real)


def _on_host(values: Tensor | ArrayLike, dtype: type[S]) -> NDArray[S]:
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    return np.array(values, dtype=dtype)


def _no_pairs(device: torch.device) -> Pairs:
    none = torch.zeros(0, dtype=torch.int64, device=device)
    return Pairs(none, none, none.reshape(0, 3))


def _extents(shift: Tensor) -> Extents:
    if not shift.shape[0]:
        return (0, 0, 0)
    lowest, highest = torch.aminmax(shift, dim=0)
    x, y, z = torch.maximum(-lowest, highest).tolist()
    return (x, y, z)
