"""A step on a GPU by Triton: count, scan, write, with one host synchronisation in all."""

import numpy as np
import torch
import triton
from torch import Tensor

from md_gie.neighbors import triton_kernels as kernels
from md_gie.neighbors.compaction import check_edge_count
from md_gie.neighbors.device_compaction import DevicePass
from md_gie.neighbors.geometry import Bools, Floats, complete_cell
from md_gie.neighbors.skin_list import Anchor, SkinList
from md_gie.neighbors.triton_graph import ATOMS, EDGES, OPTIONS, ROWS, StepGraph
from md_gie.ops import Edges
from md_gie.ops.launch import device_of

MOST_CAPTURED = 2**22
"""Pairs of the largest list that is stepped by a graph, whose buffers need 52 bytes a pair."""


class TritonPass(DevicePass):
    """The :class:`~md_gie.neighbors.skin_list.StepPass` of CUDA tensors.

    The host waits once in a step, for three numbers: whether an atom has gone too far, how many
    edges there are, and whether two atoms coincide.
    """

    def __init__(self) -> None:
        super().__init__()
        self._numbers: tuple[tuple[object, ...], Tensor] | None = None
        self._graph: StepGraph | None = None

    def step(
        self,
        positions: Tensor,
        anchor: Anchor,
        listed: SkinList,
        cell: Floats,
        deformation: Floats,
        limit: float,
        table: Floats,
        cutoff: float,
    ) -> tuple[Edges, int] | None:
        """Edges of new positions, or None if an atom is more than ``limit`` from its anchor."""
        n_atoms = positions.shape[0]
        if n_atoms == 0:
            return self.compact(listed, positions, table, cutoff)
        numbers = self._constants(cell, anchor.pbc, deformation, limit, cutoff, positions.device)
        if listed.src.shape[0] <= MOST_CAPTURED:
            if self._graph is None or not self._graph.fits(listed, len(table)):
                self._graph = StepGraph(listed, len(table))
            return self._graph.step(positions, anchor, listed, table, numbers)
        wrapped = torch.empty_like(positions)
        tiles = triton.cdiv(n_atoms, ATOMS)
        far = torch.empty(tiles, dtype=torch.int32, device=positions.device)
        with device_of(positions):
            kernels.track[(tiles,)](
                positions, anchor.wrapped, anchor.wraps, numbers, wrapped, far, n_atoms,
                BLOCK=ATOMS, **OPTIONS,
            )  # fmt: skip
        return self._compact(listed, wrapped, table, numbers, far)

    def compact(
        self, listed: SkinList, wrapped: Tensor, table: Floats, cutoff: float
    ) -> tuple[Edges, int]:
        """Edges within the cutoff, and the number of a listed coincident pair or -1."""
        still = np.eye(3), np.ones(3, bool), np.eye(3), 0.0
        numbers = self._constants(*still, cutoff, wrapped.device)
        near = torch.zeros(1, dtype=torch.int32, device=wrapped.device)
        result = self._compact(listed, wrapped, table, numbers, near)
        assert result is not None
        return result

    def _compact(
        self, listed: SkinList, wrapped: Tensor, table: Floats, numbers: Tensor, far: Tensor
    ) -> tuple[Edges, int] | None:
        n_atoms, device = wrapped.shape[0], wrapped.device
        search = (
            listed.row_ptr,
            listed.src,
            listed.images,
            wrapped,
            self._on_device(table, wrapped),
        )
        if n_atoms == 0:
            first, second = torch.zeros(2, 1, dtype=torch.int32, device=device)
            return _edges(first, second, 0), -1
        found = torch.empty(2, n_atoms, dtype=torch.int32, device=device)
        # Two tensors, for the edges are the caller's to keep and to change.
        row_ptr, source_ptr = (found.new_empty(n_atoms + 1) for _ in range(2))
        summary = found.new_empty(3)
        with device_of(wrapped):
            kernels.count[(n_atoms,)](*search, numbers, found[0], found[1], BLOCK=EDGES, **OPTIONS)
            kernels.sum_up[(1,)](
                found[0], found[1], far, row_ptr, source_ptr, summary, n_atoms, far.shape[0],
                BLOCK=ROWS, num_warps=8,
            )  # fmt: skip
            is_far, n_edges, coincident = summary.tolist()
            if is_far:
                return None
            check_edge_count(listed.src.shape[0])
            edges = _edges(row_ptr, source_ptr, n_edges)
            places = torch.empty_like(listed.src)
            kernels.write[(n_atoms,)](
                *search, numbers, row_ptr, edges.src, edges.dst, edges.vectors, places,
                BLOCK=EDGES, **OPTIONS,
            )  # fmt: skip
            kernels.transpose[(n_atoms,)](
                listed.row_ptr, listed.order, places, row_ptr, edges.source_order,
                BLOCK=EDGES, num_warps=4,
            )  # fmt: skip
        return edges, coincident

    def _constants(
        self,
        cell: Floats,
        pbc: Bools,
        deformation: Floats,
        limit: float,
        cutoff: float,
        device: torch.device,
    ) -> Tensor:
        """Numbers that the kernels read, sent to the device when they change."""
        key = cell.tobytes(), pbc.tobytes(), deformation.tobytes(), limit, cutoff
        if self._numbers is None or self._numbers[0] != key:
            inverse = np.linalg.inv(complete_cell(cell, pbc)) * pbc
            values = np.concatenate(
                [cell.ravel(), deformation.ravel(), inverse.ravel(), [limit**2, cutoff**2]]
            )
            self._numbers = (key, torch.from_numpy(values).to(device))
        return self._numbers[1]


def _edges(row_ptr: Tensor, source_ptr: Tensor, n_edges: int) -> Edges:
    def empty(*shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=row_ptr.device)

    return Edges(
        row_ptr=row_ptr,
        src=empty(n_edges),
        dst=empty(n_edges),
        vectors=empty(n_edges, 3, dtype=torch.float64),
        source_ptr=source_ptr,
        source_order=empty(n_edges),
    )
