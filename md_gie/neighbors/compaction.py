"""Build and step on a CPU: compiled loops over blocks of rows."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from md_gie.errors import NeighborOverflowError
from md_gie.neighbors import cpu_kernels
from md_gie.neighbors.buffers import BufferPool, EdgeBuffers
from md_gie.neighbors.build import Pairs
from md_gie.neighbors.geometry import MAX_EDGES, Floats, complete_cell
from md_gie.neighbors.skin_list import Anchor, Extents, SkinList, StepPass
from md_gie.neighbors.threads import run_blocks, split_rows
from md_gie.ops import Edges


class CPUPass(StepPass):
    """The :class:`~md_gie.neighbors.skin_list.StepPass` of CPU tensors."""

    def __init__(self) -> None:
        self._pool = BufferPool()

    def pack(
        self, pairs: Pairs, wrapped: Tensor, table: Floats, extents: Extents, radius: float
    ) -> SkinList:
        """Sort pairs into a list and drop those not closer than ``radius`` (Å)."""
        n_atoms = wrapped.shape[0]
        dst, src, shift = (array.numpy() for array in _sorted_by_destination(pairs))
        pair_ptr = np.searchsorted(dst, np.arange(n_atoms + 1)).astype(np.int64)
        blocks, bits = split_rows(pair_ptr), len(table).bit_length()
        keys, counts = np.empty(len(src), np.int64), np.empty(n_atoms, np.int64)
        here, reach = wrapped.numpy(), np.array(extents)

        def pack(start: int, stop: int) -> None:
            cpu_kernels.pack_rows(
                start, stop, pair_ptr, src, shift, reach, bits, here, table, radius**2, keys, counts
            )

        run_blocks(pack, *blocks)
        row_ptr = row_pointer(counts)
        listed, images, order = (np.empty(int(row_ptr[-1]), np.int32) for _ in range(3))

        def unpack(start: int, stop: int) -> None:
            cpu_kernels.unpack_rows(start, stop, pair_ptr, keys, bits, row_ptr, listed, images)

        run_blocks(unpack, *blocks)
        cpu_kernels.order_by_source(row_ptr, listed, row_ptr[:-1].copy(), order)
        rows = np.repeat(np.arange(n_atoms, dtype=np.int32), np.diff(row_ptr))
        return SkinList(*(torch.from_numpy(a) for a in (row_ptr, rows, listed, images, order)))

    def track(
        self, positions: Tensor, anchor: Anchor, cell: Floats, deformation: Floats, limit: float
    ) -> Tensor | None:
        """Wrap positions (N, 3); None if an atom is more than ``limit`` (Å) from its anchor."""
        wrapped = torch.empty_like(positions)
        inverse = np.where(anchor.pbc, np.linalg.inv(complete_cell(cell, anchor.pbc)), 0.0)
        fixed = (positions.numpy(), cell, inverse, anchor.wrapped.numpy(), deformation, limit**2)
        moving = (anchor.wraps.numpy(), wrapped.numpy())
        near = cpu_kernels.track_atoms(0, positions.shape[0], *fixed, *moving)
        return wrapped if near else None

    def compact(
        self, listed: SkinList, wrapped: Tensor, table: Floats, cutoff: float
    ) -> tuple[Edges, int]:
        """Edges within the cutoff, and the number of a listed coincident pair or -1."""
        row_ptr = listed.row_ptr.numpy()
        search = (row_ptr, listed.src.numpy(), listed.images.numpy(), wrapped.numpy(), table)
        blocks = split_rows(row_ptr)
        out = self._pool.take(int(row_ptr[-1]))
        out_ptr = np.zeros(len(row_ptr), np.int32)
        coincident = _write(blocks, search, cutoff**2, out_ptr, out)

        def transpose(start: int, stop: int) -> None:
            order = listed.order.numpy()
            cpu_kernels.write_order(start, stop, row_ptr, order, out.numbers, out_ptr, out.order)

        run_blocks(transpose, *blocks)
        return out.edges(out_ptr), coincident


def _write(
    blocks: list[tuple[int, int]],
    search: tuple[NDArray[np.generic], ...],
    cutoff2: float,
    out_ptr: NDArray[np.int32],
    out: EdgeBuffers,
) -> int:
    def count(start: int, stop: int) -> int:
        return int(cpu_kernels.count_edges(start, stop, *search, cutoff2))

    def write(start: int, stop: int, first: int, last: int) -> int:
        place = (out_ptr, out.src, out.dst, out.vectors, out.numbers)
        return int(cpu_kernels.write_edges(start, stop, first, last, *search, cutoff2, *place))

    if len(blocks) == 1:
        # One block starts at zero whatever the counts are, so it need not count.
        spans = [(*blocks[0], 0, out.capacity)]
    else:
        ends = np.cumsum([0, *run_blocks(count, *blocks)]).tolist()
        spans = [(*block, *ends[k : k + 2]) for k, block in enumerate(blocks)]
    return max(run_blocks(write, *spans))


def _sorted_by_destination(pairs: Pairs) -> Pairs:
    if bool((pairs.dst[1:] >= pairs.dst[:-1]).all()):
        return pairs
    order = torch.argsort(pairs.dst, stable=True)
    return Pairs(*(array[order] for array in pairs))


def row_pointer(counts: NDArray[np.int64]) -> NDArray[np.int32]:
    """CSR pointer (N+1,) int32 of rows with ``counts`` (N,) edges."""
    ends = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ends[1:])
    check_edge_count(int(ends[-1]))
    return ends.astype(np.int32)


def check_edge_count(n_edges: int) -> None:
    """Refuse more edges than int32 can number, with NeighborOverflowError."""
    if n_edges > MAX_EDGES:
        raise NeighborOverflowError(
            f"{n_edges} edges within cutoff and skin are more than the {MAX_EDGES} that can be "
            "numbered; use fewer atoms or a smaller cutoff",
            needed=n_edges,
            capacity=MAX_EDGES,
        )
