"""A step of a neighbor list on a GPU as one CUDA graph: launched at once, waited for once."""

import numpy as np
import torch
import triton
from torch import Tensor

from md_gie.neighbors import triton_kernels as kernels
from md_gie.neighbors.geometry import Floats
from md_gie.neighbors.skin_list import Anchor, SkinList
from md_gie.ops import Edges
from md_gie.ops.launch import device_of

ATOMS, EDGES, ROWS = 128, 128, 4096  # per tile
# Contracting products with sums would change bits from one device to the next.
OPTIONS = {"num_warps": 4, "enable_fp_fusion": False}
SPARE = 1.05
"""Room for later lists of the same atoms, over the list that the buffers are made for."""


class StepGraph:
    """Follow atoms, count, write and transpose edges, replayed over buffers of fixed size.

    The buffers hold a whole list, of which the edges within the cutoff are a part: all kernels are
    launched before the host knows how many edges there are.

    Parameters
    ----------
    listed : SkinList
        Its sizes, and some room, are those of the buffers.
    n_images : int
        Rows of the table of lattice vectors.
    """

    def __init__(self, listed: SkinList, n_images: int) -> None:
        device = listed.src.device
        n_atoms, n_pairs = listed.row_ptr.shape[0] - 1, int(listed.src.shape[0] * SPARE)

        def ints(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int32, device=device)

        def floats(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float64, device=device)

        self._row_ptr, self._ends = ints(n_atoms + 1), (ints(n_atoms + 1), ints(n_atoms + 1))
        self._src, self._images, self._order = ints(n_pairs), ints(n_pairs), ints(n_pairs)
        self._reference, self._wraps = floats(n_atoms, 3), floats(n_atoms, 3)
        self._positions, self._wrapped = floats(n_atoms, 3), floats(n_atoms, 3)
        self._table, self._numbers = floats(n_images, 3), floats(kernels.N_NUMBERS)
        self._far = ints(triton.cdiv(n_atoms, ATOMS))
        self._found, self._places, self._summary = ints(2, n_atoms), ints(n_pairs), ints(3)
        self._out = ints(3, n_pairs)
        self._vectors = floats(n_pairs, 3)
        self._listed: SkinList | None = None
        self._images_of: Floats | None = None
        self._numbers_of: Tensor | None = None
        self._graph: torch.cuda.CUDAGraph | None = None

    def fits(self, listed: SkinList, n_images: int) -> bool:
        """Whether the buffers hold a list."""
        return (
            listed.row_ptr.shape == self._row_ptr.shape
            and listed.src.shape[0] <= self._src.shape[0]
            and n_images <= self._table.shape[0]
        )

    def step(
        self, positions: Tensor, anchor: Anchor, listed: SkinList, table: Floats, numbers: Tensor
    ) -> tuple[Edges, int] | None:
        """Edges and a listed coincident pair or -1; None if an atom is too far from its anchor."""
        if self._listed is not listed:
            self._load(anchor, listed)
        if self._images_of is not table:
            self._table[: len(table)].copy_(torch.from_numpy(np.ascontiguousarray(table)))
            self._images_of = table
        if self._numbers_of is not numbers:
            self._numbers.copy_(numbers)
            self._numbers_of = numbers
        self._positions.copy_(positions)
        with device_of(positions):
            if not positions.is_cuda:  # the interpreter
                self._launch()
            else:
                self._graph = self._graph or self._capture()
                self._graph.replay()
        is_far, n_edges, coincident = self._summary.tolist()
        if is_far:
            return None
        src, dst, source_order = (row[:n_edges].clone() for row in self._out)
        row_ptr, source_ptr = (pointer.clone() for pointer in self._ends)
        vectors = self._vectors[:n_edges].clone()
        return Edges(row_ptr, src, dst, vectors, source_ptr, source_order), coincident

    def _load(self, anchor: Anchor, listed: SkinList) -> None:
        n_pairs = listed.src.shape[0]
        self._row_ptr.copy_(listed.row_ptr)
        self._src[:n_pairs].copy_(listed.src)
        self._images[:n_pairs].copy_(listed.images)
        self._order[:n_pairs].copy_(listed.order)
        self._reference.copy_(anchor.wrapped)
        self._wraps.copy_(anchor.wraps)
        self._listed = listed

    def _capture(self) -> torch.cuda.CUDAGraph:
        device = self._src.device
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            self._launch()  # kernels compile before the capture; to follow twice changes nothing
        torch.cuda.current_stream(device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._launch()
        return graph

    def _launch(self) -> None:
        n_atoms = self._positions.shape[0]
        tiles, counts, coincident = self._far.shape[0], self._found[0], self._found[1]
        src, dst, source_order = self._out
        search = self._row_ptr, self._src, self._images, self._wrapped, self._table, self._numbers
        kernels.track[(tiles,)](
            self._positions, self._reference, self._wraps, self._numbers, self._wrapped,
            self._far, n_atoms, BLOCK=ATOMS, **OPTIONS,
        )  # fmt: skip
        kernels.count[(n_atoms,)](*search, counts, coincident, BLOCK=EDGES, **OPTIONS)
        kernels.sum_up[(1,)](
            counts, coincident, self._far, *self._ends, self._summary, n_atoms, tiles,
            BLOCK=ROWS, num_warps=8,
        )  # fmt: skip
        kernels.write[(n_atoms,)](
            *search, self._ends[0], src, dst, self._vectors, self._places, BLOCK=EDGES, **OPTIONS
        )
        kernels.transpose[(n_atoms,)](
            self._row_ptr, self._order, self._places, self._ends[0], source_order,
            BLOCK=EDGES, num_warps=4,
        )  # fmt: skip
