"""Labelled frames on the training device, and batches made of them without host work."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from md_gie.errors import StructureError
from md_gie.neighbors import Edges, NeighborCache
from md_gie.structure import LabelledFrame, read_labelled_frames


class FrameGraph(NamedTuple):
    """One labelled frame as the model sees it, on the training device.

    Attributes
    ----------
    types : (N,) int64
    edges : Edges
        Edges within the cutoff; ``vectors`` in the model's dtype.
    energy : () float64, eV
    forces : (N, 3) model dtype, eV/Å
    """

    types: Tensor
    edges: Edges
    energy: Tensor
    forces: Tensor


class Batch(NamedTuple):
    """Several frames as one block-diagonal graph.

    Attributes
    ----------
    types : (N,) int64
    edges : Edges
        Edges of all frames; no edge joins two frames.
    frame : (N,) int64
        Frame of each atom.
    n_atoms : (B,) float64
        Atoms of each frame.
    energies : (B,) float64, eV
    forces : (N, 3) model dtype, eV/Å
    """

    types: Tensor
    edges: Edges
    frame: Tensor
    n_atoms: Tensor
    energies: Tensor
    forces: Tensor


def read_frames(paths: Sequence[Path], type_map: Sequence[str]) -> list[LabelledFrame]:
    """Read the labelled frames of several extended XYZ files, plain or gzipped.

    Parameters
    ----------
    paths : sequence of Path
        Files in the order in which their frames are numbered.
    type_map : sequence of str
        Elements that the model knows.

    Raises
    ------
    StructureError
        If a file has no frame, a label is missing or not finite, or an element is not in
        ``type_map``; the message names file and frame.
    """
    known = set(type_map)
    frames: list[LabelledFrame] = []
    for path in paths:
        for number, frame in enumerate(read_labelled_frames(path)):
            unknown = sorted(set(frame.symbols) - known)
            if unknown:
                raise StructureError(
                    f"{path}, frame {number}: element {', '.join(unknown)} is not in type_map "
                    f"{list(type_map)}; add it there or leave the frame out",
                    frame=number,
                    elements=unknown,
                )
            frames.append(frame)
    return frames


def build_graphs(
    frames: Sequence[LabelledFrame],
    type_map: Sequence[str],
    cutoff: float,
    *,
    device: torch.device,
    dtype: torch.dtype,
) -> list[FrameGraph]:
    """Find the edges of each frame once and keep everything on the training device.

    Parameters
    ----------
    frames : sequence of LabelledFrame
    type_map : sequence of str
        Element of each type.
    cutoff : float, Å
    device, dtype
        Where the graphs live, and the dtype of edge vectors and forces. Vectors are formed in
        float64 and cast once.

    Raises
    ------
    StructureError
        If a cell is collapsed or two atoms are at the same place.
    """
    index = {symbol: number for number, symbol in enumerate(type_map)}
    cache = NeighborCache(cutoff, skin=0.0)
    graphs = []
    for number, frame in enumerate(frames):
        edges = cache.update(frame.positions, frame.cell, frame.pbc)
        if (pair := cache.coincident_pair()) is not None:
            raise StructureError(
                f"training frame {number}: atoms {pair[0]} and {pair[1]} are at the same place; "
                "leave the frame out",
                frame=number,
                pair=pair,
            )
        moved = Edges(*(part.to(device) for part in edges))
        graphs.append(
            FrameGraph(
                types=torch.tensor([index[s] for s in frame.symbols], device=device),
                edges=moved._replace(vectors=moved.vectors.to(dtype)),
                energy=torch.tensor(frame.energy, dtype=torch.float64, device=device),
                forces=torch.as_tensor(frame.forces).to(device, dtype),
            )
        )
    return graphs


def collate(graphs: Sequence[FrameGraph]) -> Batch:
    """Join frames into one block-diagonal graph.

    Sizes are read off shapes, so that nothing waits for the device. Source order stays sorted by
    source, because each frame's atoms follow those of the frame before.
    """
    row_ptr, src, dst, source_ptr, source_order, frame = [], [], [], [], [], []
    n_atoms = n_edges = 0
    for number, graph in enumerate(graphs):
        edges = graph.edges
        first = 0 if number == 0 else 1  # the end of one frame is the start of the next
        row_ptr.append(edges.row_ptr[first:] + n_edges)
        source_ptr.append(edges.source_ptr[first:] + n_edges)
        src.append(edges.src + n_atoms)
        dst.append(edges.dst + n_atoms)
        source_order.append(edges.source_order + n_edges)
        frame.append(torch.full_like(graph.types, number))
        n_atoms += edges.n_atoms
        n_edges += edges.n_edges
    device = graphs[0].types.device
    sizes = [torch.full((), g.edges.n_atoms, dtype=torch.float64, device=device) for g in graphs]
    return Batch(
        types=torch.cat([g.types for g in graphs]),
        edges=Edges(
            row_ptr=torch.cat(row_ptr),
            src=torch.cat(src),
            dst=torch.cat(dst),
            vectors=torch.cat([g.edges.vectors for g in graphs]),
            source_ptr=torch.cat(source_ptr),
            source_order=torch.cat(source_order),
        ),
        frame=torch.cat(frame),
        n_atoms=torch.stack(sizes),
        energies=torch.stack([g.energy for g in graphs]),
        forces=torch.cat([g.forces for g in graphs]),
    )


def batch_indices(n_frames: int, batch_size: int, step: int, seed: int) -> list[int]:
    """Frames of training step ``step``: a pure function of its arguments.

    Every pass over the data is a permutation drawn from a counter-based generator (Philox) keyed
    by (seed, pass), and batches cut the endless sequence of passes; a resumed run therefore sees
    exactly the frames that an uninterrupted one sees.
    """
    indices = []
    for position in range(step * batch_size, (step + 1) * batch_size):
        epoch, place = divmod(position, n_frames)
        indices.append(int(_permutation(n_frames, epoch, seed)[place]))
    return indices


@lru_cache(maxsize=4)
def _permutation(n_frames: int, epoch: int, seed: int) -> np.ndarray:
    key = np.array([seed, epoch], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).permutation(n_frames)


def fit_element_energies(frames: Sequence[LabelledFrame], type_map: Sequence[str]) -> np.ndarray:
    """Energy of each element, by least squares of frame energies over element counts.

    Where compositions are collinear (water alone tells only the energy of a molecule) the
    solution of smallest norm is taken.

    Returns
    -------
    (n_types,) float64, eV
    """
    counts = np.array([[f.symbols.count(s) for s in type_map] for f in frames], dtype=np.float64)
    energies = np.array([f.energy for f in frames])
    solution: np.ndarray = np.linalg.lstsq(counts, energies, rcond=1e-10)[0]
    return solution
