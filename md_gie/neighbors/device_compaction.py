"""Build and step in tensor operations: any device, one host synchronisation for each decision."""

import torch
from torch import Tensor

from md_gie.neighbors.build import Pairs
from md_gie.neighbors.compaction import check_edge_count
from md_gie.neighbors.cpu_kernels import COINCIDENT2
from md_gie.neighbors.geometry import Floats, complete_cell, wrap_positions
from md_gie.neighbors.skin_list import Anchor, Extents, SkinList, StepPass
from md_gie.ops import Edges

KEY_BITS = 63


class DevicePass(StepPass):
    """The :class:`~md_gie.neighbors.skin_list.StepPass` of tensors on an accelerator.

    Additions run in the order of the compiled loops for CPUs, so that both give the same bits.
    """

    def __init__(self) -> None:
        self._table: tuple[Floats, Tensor] | None = None

    def pack(
        self, pairs: Pairs, wrapped: Tensor, table: Floats, extents: Extents, radius: float
    ) -> SkinList:
        """Sort pairs into a list and drop those not closer than ``radius`` (Å)."""
        ex, ey, ez = extents
        sx, sy, sz = pairs.shift.unbind(1)
        images = ((sx + ex) * (2 * ey + 1) + (sy + ey)) * (2 * ez + 1) + (sz + ez)
        vectors = _vectors(wrapped, pairs.src, pairs.dst, self._on_device(table, wrapped)[images])
        kept = (_squares(vectors) < radius**2).nonzero().squeeze(1)
        dst, src, images = pairs.dst[kept], pairs.src[kept], images[kept]
        check_edge_count(dst.shape[0])
        order = _lexicographic_order(dst, src, images, wrapped.shape[0], len(table))
        dst, src, images = dst[order], src[order], images[order]
        counts = torch.bincount(dst, minlength=wrapped.shape[0])
        by_source = torch.argsort(src, stable=True)
        arrays = (_pointer(counts), dst, src, images, by_source)
        return SkinList(*(array.to(torch.int32) for array in arrays))

    def track(
        self, positions: Tensor, anchor: Anchor, cell: Floats, deformation: Floats, limit: float
    ) -> Tensor | None:
        """Wrap positions (N, 3); None if an atom is more than ``limit`` (Å) from its anchor."""
        wrapped = wrap_positions(positions, anchor.wraps, cell)
        home = _product(anchor.wrapped, deformation)
        moved = wrapped - home
        near = _squares(moved) <= limit**2
        if bool(near.all()):
            return wrapped
        inverse = torch.from_numpy(complete_cell(cell, anchor.pbc)).inverse().numpy()
        boxes = torch.round(_product(moved, inverse)) * positions.new_tensor(anchor.pbc.tolist())
        wraps = anchor.wraps + torch.where(near[:, None], 0.0, boxes)
        wrapped = wrap_positions(positions, wraps, cell)
        if not bool((_squares(wrapped - home) <= limit**2).all()):
            return None
        anchor.wraps.copy_(wraps)
        return wrapped

    def compact(
        self, listed: SkinList, wrapped: Tensor, table: Floats, cutoff: float
    ) -> tuple[Edges, int | Tensor]:
        """Edges within the cutoff, and the number of a listed coincident pair or -1."""
        shifts = self._on_device(table, wrapped)[listed.images]
        vectors = _vectors(wrapped, listed.src, listed.dst, shifts)
        squares = _squares(vectors)
        keep = (squares < cutoff**2) & (squares > COINCIDENT2)
        ends = _pointer(keep)
        kept = keep.nonzero().squeeze(1)
        by_source = listed.order[keep[listed.order]]
        row_ptr = ends[listed.row_ptr].to(torch.int32)
        coincident = torch.where(squares <= COINCIDENT2, 1, 0)
        edges = Edges(
            row_ptr=row_ptr,
            src=listed.src[kept],
            dst=listed.dst[kept],
            vectors=vectors[kept],
            # Each edge within the cutoff has its reverse there: a source has as many as a row.
            source_ptr=row_ptr.clone(),
            source_order=ends[by_source].to(torch.int32),
        )
        return edges, _last_nonzero(coincident)

    def _on_device(self, table: Floats, like: Tensor) -> Tensor:
        if self._table is None or self._table[0] is not table:
            self._table = (table, torch.from_numpy(table).to(like.device))
        return self._table[1]


def _vectors(wrapped: Tensor, src: Tensor, dst: Tensor, shifts: Tensor) -> Tensor:
    return (wrapped[src] - wrapped[dst]) + shifts


def _squares(vectors: Tensor) -> Tensor:
    squared = vectors * vectors
    return (squared[:, 0] + squared[:, 1]) + squared[:, 2]


def _product(vectors: Tensor, matrix: Floats) -> Tensor:
    x, y, z = vectors.unbind(1)
    columns = [(x * float(a) + y * float(b)) + z * float(c) for a, b, c in matrix.T]
    return torch.stack(columns, dim=1)


def _pointer(counts: Tensor) -> Tensor:
    pointer = torch.zeros(counts.shape[0] + 1, dtype=torch.int64, device=counts.device)
    torch.cumsum(counts, 0, out=pointer[1:])
    return pointer


def _last_nonzero(flags: Tensor) -> Tensor:
    numbers = torch.arange(flags.shape[0], device=flags.device)
    none = numbers.new_full((1,), -1)
    return torch.cat([none, torch.where(flags > 0, numbers, -1)]).max()


def _lexicographic_order(
    dst: Tensor, src: Tensor, images: Tensor, n_atoms: int, n_images: int
) -> Tensor:
    image_bits, atom_bits = n_images.bit_length(), n_atoms.bit_length()
    within_row = (src << image_bits) | images
    if image_bits + 2 * atom_bits <= KEY_BITS:
        return torch.argsort((dst << (image_bits + atom_bits)) | within_row)
    order = torch.argsort(within_row)
    return order[torch.argsort(dst[order], stable=True)]
