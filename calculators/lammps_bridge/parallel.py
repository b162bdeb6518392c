"""Forces of a configuration that several processes share."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from md_gie.calculators.lammps_bridge.atoms import Box, OwnAtoms
from md_gie.calculators.lammps_bridge.forces import (
    Shares,
    TypeTable,
    as_shares,
    name_atoms,
)
from md_gie.calculators.lammps_bridge.halo import ProcessHalo
from md_gie.calculators.lammps_bridge.halo_plan import (
    MARGIN,
    Extent,
    lattice_coordinates,
    own_extent,
    plan_sending,
)
from md_gie.calculators.lammps_bridge.settings import Settings
from md_gie.engine.base import Evaluation, SharedEngine
from md_gie.engine.checks import check_contacts
from md_gie.errors import MDGIEError
from md_gie.neighbors import Edges, NeighborCache, check_geometry
from md_gie.neighbors.geometry import deformation_between


class ParallelForces:
    """Forces of own atoms, each process with copies of the atoms near its own.

    Copies are found from the atoms' positions, not taken from LAMMPS's ghosts: whatever
    communication cutoff or neighbor settings a script has, none is missing. They are found anew,
    by all processes together, when atoms have changed owners or an atom or the box has moved so
    far that a pair within the cutoff could be missed; the criterion is that of
    :class:`~md_gie.neighbors.NeighborCache`.

    Parameters
    ----------
    engine : SharedEngine
    settings : Settings
        Elements, skin and kind of halo.
    communicator : mpi4py.MPI.Comm
        Of all processes that share the configuration.
    """

    def __init__(self, engine: SharedEngine, settings: Settings, communicator: Any) -> None:
        self._engine = engine
        self._communicator = communicator
        self._features = settings.halo == "features"
        # Energies of own atoms need all atoms within one cutoff, or within the model's reach.
        self._hops = 1 if self._features else engine.reach
        self._depth = engine.cutoff * self._hops
        self._skin = settings.skin
        self._table = TypeTable(engine, settings)
        self._cache = NeighborCache(engine.cutoff, settings.skin, device=engine.device)
        self._halo: ProcessHalo | None = None
        self._plan_box: Box | None = None
        self._plan_positions = np.zeros((0, 3))
        self._types = torch.zeros(0, dtype=torch.int64)
        self._ids = np.zeros(0, np.int64)
        self.n_plans = 0

    def compute(self, atoms: OwnAtoms, box: Box, changed: bool, virials: bool) -> Shares:
        """See :class:`~md_gie.calculators.lammps_bridge.forces.ForceProvider`."""
        stale = changed or self._halo is None or self._has_moved(atoms.positions, box)
        if self._any(stale):
            self._plan(atoms, box)
        assert self._halo is not None
        halo, n_own = self._halo, len(atoms.ids)
        positions = halo.copy_positions(atoms.positions, box.cell)
        try:
            edges = self._cache.update(positions, np.eye(3), np.zeros(3, np.bool_))
            if self._features:
                edges = edges_of_own(edges, n_own)
            check_contacts(edges, self._cache.coincident_pair())
            evaluation = self._engine.evaluate(
                self._types, edges, atomic_virials=virials, halo=halo
            )
        except MDGIEError as error:
            name_atoms(error, self._ids)
            raise
        return as_shares(self._with_copies(evaluation, halo), n_own)

    def _any(self, flag: bool) -> bool:
        found = np.empty(1, np.int32)
        self._communicator.Allreduce(np.array([flag], np.int32), found)
        return bool(found[0])

    def _plan(self, atoms: OwnAtoms, box: Box) -> None:
        self.n_plans += 1
        radius = self._depth + self._skin
        check_geometry(atoms.positions, box.cell, box.pbc, radius)
        coordinates = lattice_coordinates(atoms.positions, box)
        bounds = np.empty((self._communicator.size, 2, 3))
        self._communicator.Allgather(np.stack(own_extent(coordinates)), bounds)
        extents = [Extent(lower, upper) for lower, upper in bounds]
        sending = plan_sending(coordinates, extents, self._communicator.rank, box, radius)
        self._halo = ProcessHalo(
            self._communicator, sending, len(atoms.ids), self._engine.device,
            features=self._features,
        )  # fmt: skip
        self._ids = self._halo.copy_numbers(atoms.ids)
        types = self._halo.copy_numbers(atoms.types)
        self._types = self._table.model_types(types, self._ids)
        self._plan_box, self._plan_positions = box, atoms.positions

    def _has_moved(self, positions: NDArray[np.float64], box: Box) -> bool:
        """Whether an own atom or the box is so far from the plan that copies may be missing."""
        plan = self._plan_box
        if plan is None or not np.array_equal(plan.pbc, box.pbc):
            return True
        deformation = deformation_between(plan.cell, box.cell, box.pbc)
        smallest = float(np.linalg.svd(deformation, compute_uv=False)[-1])
        # A chain of pairs, one for each hop, may have become shorter by two displacements a pair.
        limit = ((self._depth + self._skin) * smallest - self._depth) / (2 * self._hops) - MARGIN
        moved = np.square(positions - self._plan_positions @ deformation).sum(1)
        return limit < 0 or not bool((moved <= limit**2).all())

    def _with_copies(self, evaluation: Evaluation, halo: ProcessHalo) -> Evaluation:
        """Add what belongs to copies to their owners' forces and virials, in one message."""
        values = [evaluation.forces]
        if evaluation.atomic_virials is not None:
            values.append(evaluation.atomic_virials.flatten(1))
        own = halo.add_copies(torch.cat(values, dim=1))
        virials = own[:, 3:].reshape(-1, 3, 3) if evaluation.atomic_virials is not None else None
        return evaluation._replace(forces=own[:, :3], atomic_virials=virials)


def edges_of_own(edges: Edges, n_own: int) -> Edges:
    """Edges (of all rows) whose destination is one of the first ``n_own`` rows."""
    n_edges = int(edges.row_ptr[n_own])
    order = edges.source_order[edges.source_order < n_edges]
    src = edges.src[:n_edges]
    return Edges(
        row_ptr=edges.row_ptr.clamp(max=n_edges),
        src=src,
        dst=edges.dst[:n_edges],
        vectors=edges.vectors[:n_edges],
        source_ptr=_pointer(src, edges.n_atoms),
        source_order=order,
    )


def _pointer(src: Tensor, n_rows: int) -> Tensor:
    ends = torch.zeros(n_rows + 1, dtype=torch.int32, device=src.device)
    counts = torch.bincount(src, minlength=n_rows)
    ends[1:] = counts.cumsum(0)
    return ends
