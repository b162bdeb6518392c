"""Copies that processes need, against a search through all images."""

import itertools

import numpy as np
import pytest

from md_gie.calculators.lammps_bridge.atoms import Box
from md_gie.calculators.lammps_bridge.halo_plan import (
    Extent,
    lattice_coordinates,
    own_extent,
    plan_sending,
)

BOXES = {
    "periodic": Box(np.diag([6.0, 9.0, 7.0]), np.array([True] * 3), np.zeros(3)),
    "triclinic": Box(
        np.array([[6.0, 0, 0], [2.5, 7.0, 0], [-1.5, 2.0, 8.0]]), np.array([True] * 3), np.zeros(3)
    ),
    "slab": Box(np.diag([6.0, 7.0, 9.0]), np.array([True, True, False]), np.zeros(3)),
    "free": Box(np.diag([9.0, 9.0, 9.0]), np.array([False] * 3), np.zeros(3)),
}


@pytest.mark.parametrize("box", BOXES.values(), ids=BOXES)
@pytest.mark.parametrize("radius", [2.5, 8.0])
def test_no_atom_within_the_radius_is_missing(box, radius):
    rng = np.random.default_rng(7)
    positions = rng.random((30, 3)) @ box.cell
    owner = (positions[:, 0] > 3.0).astype(int)
    coordinates = [lattice_coordinates(positions[owner == p], box) for p in range(2)]
    # The third process has no atoms.
    extents = [own_extent(c) for c in coordinates] + [own_extent(np.zeros((0, 3)))]
    copies: list[list[tuple[int, tuple[float, ...]]]] = [[], [], []]
    for rank in range(2):
        sending = plan_sending(coordinates[rank], extents, rank, box, radius)
        members = np.flatnonzero(owner == rank)
        receivers = np.repeat(np.arange(3), sending.counts)
        for atom, image, to in zip(sending.atoms, sending.images, receivers, strict=True):
            copies[to].append((int(members[atom]), tuple(image)))
    assert copies[2] == []
    span = range(-4, 5)
    shifts = [s for s in itertools.product(span, repeat=3) if not np.any(np.array(s)[~box.pbc])]
    for to in range(2):
        assert len(set(copies[to])) == len(copies[to])
        own = positions[owner == to]
        for atom, shift in itertools.product(range(30), shifts):
            if owner[atom] == to and shift == (0, 0, 0):
                assert (atom, (0.0, 0.0, 0.0)) not in copies[to]
                continue
            place = positions[atom] + np.array(shift) @ box.cell
            if np.linalg.norm(own - place, axis=1).min() < radius:
                assert (atom, tuple(map(float, shift))) in copies[to]


def test_copies_are_few_where_processes_are_far_apart():
    box = BOXES["free"]
    left, right = np.zeros((5, 3)), np.full((5, 3), 8.0)
    extents = [own_extent(left), own_extent(right)]
    assert plan_sending(left, extents, 0, box, 3.0).counts.tolist() == [0, 0]
    assert plan_sending(left, extents, 0, box, 8.5).counts.tolist() == [0, 5]


def test_process_without_atoms_sends_and_needs_nothing():
    empty = own_extent(np.zeros((0, 3)))
    assert (empty.lower > empty.upper).all()
    box = BOXES["periodic"]
    sending = plan_sending(np.zeros((0, 3)), [empty, Extent(np.zeros(3), np.ones(3))], 0, box, 5.0)
    assert sending.counts.tolist() == [0, 0]
    assert sending.images.shape == (0, 3)
