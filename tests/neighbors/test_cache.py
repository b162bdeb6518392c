"""NeighborCache: complete at every step, whatever moves; rebuilt only when it must be."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from md_gie.errors import StructureError
from md_gie.neighbors import Edges, NeighborCache

STRUCTURES = Path(__file__).parents[1] / "data" / "structures"
COUNTS = json.loads((STRUCTURES / "edge_counts.json").read_text())
COINCIDENT = {"coincident_FFF": 2, "coincident_TTT": 4}  # directed edges of length zero
TRICLINIC = np.array([[5.1, 0, 0], [1.2, 4.8, 0], [-0.7, 0.9, 5.5]])
ALL = np.ones(3, bool)


@pytest.mark.parametrize("skin", [0.0, 0.5])
@pytest.mark.parametrize("name", sorted(COUNTS))
def test_equals_brute_force(
    name: str, skin: float, make_cache: Any, load_case: Any, check_edges: Any
) -> None:
    case = load_case(name)
    edges = make_cache(case.cutoff, skin).update(*case[:3])
    check_edges(edges, case)
    inside = torch.linalg.norm(edges.vectors, dim=1) < case.cutoff - 1e-9
    assert int(inside.sum()) == COUNTS[name]["edges"] - COINCIDENT.get(name, 0)


def test_there_are_thirty_structures() -> None:
    assert sorted(COUNTS) == sorted(path.stem for path in STRUCTURES.glob("*.extxyz"))
    assert len(COUNTS) == 30


def test_edge_dtypes_and_order(make_cache: Any, load_case: Any) -> None:
    case = load_case("triclinic_unreduced")
    edges = make_cache(case.cutoff).update(*case[:3])
    for name in ("row_ptr", "src", "dst", "source_ptr", "source_order"):
        assert getattr(edges, name).dtype == torch.int32, name
    assert edges.vectors.dtype == torch.float64
    pairs = list(zip(edges.dst.tolist(), edges.src.tolist(), strict=True))
    assert pairs == sorted(pairs)


@pytest.mark.parametrize("pbc", [(True, True, True), (False, False, False)])
def test_no_atoms(pbc: tuple[bool, ...], make_cache: Any) -> None:
    cache = make_cache(4.0)
    for _ in range(2):
        edges = cache.update(np.zeros((0, 3)), np.eye(3) * 5, pbc)
        assert (edges.n_atoms, edges.n_edges) == (0, 0)
        assert edges.row_ptr.tolist() == [0]
        assert edges.vectors.shape == (0, 3)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_stop_being_finite_are_refused(value: float, make_cache: Any) -> None:
    positions, cell = np.zeros((2, 3)), np.eye(3) * 9
    positions[1] = 1.5
    cache = make_cache(4.0)
    cache.update(positions, cell, ALL)
    spoiled = positions.copy()
    spoiled[1, 2] = value
    with pytest.raises(StructureError, match="atom 1 "):
        cache.update(spoiled, cell, ALL)
    with pytest.raises(StructureError, match="cell"):
        cache.update(positions, np.full((3, 3), value), ALL)
    assert cache.update(positions, cell, ALL).n_edges == 2


def test_approach_from_beyond_the_skin(make_cache: Any) -> None:
    # Each atom stays within the skin of its own place; together they come closer by more.
    cutoff, skin = 3.0, 1.0
    cache = make_cache(cutoff, skin)
    cell = np.zeros((3, 3))
    start = np.array([[0.0, 0, 0], [cutoff + skin + 0.01, 0, 0]])
    assert cache.update(start, cell, ~ALL).n_edges == 0
    for step in (0.49, 0.6):
        now = start + step * np.array([[1.0, 0, 0], [-1.0, 0, 0]])
        expected = 2 if step > 0.505 else 0
        assert cache.update(now, cell, ~ALL).n_edges == expected
    assert cache.n_builds == 2
    assert cache.n_reuses == 1


@pytest.mark.parametrize("strain", [-0.02, -0.1, -0.2, -0.3])
def test_compression_brings_atoms_into_range(
    strain: float, make_cache: Any, check_edges: Any, liquid: Any
) -> None:
    case = liquid(3, 4.0)
    cache = make_cache(case.cutoff, 1.0)
    cache.update(*case[:3])
    deformation = np.diag([1 + strain, 1.0, 1 + strain / 2])
    deformation[0, 1] = strain / 3
    after = case._replace(positions=case.positions @ deformation, cell=case.cell @ deformation)
    check_edges(cache.update(*after[:3]), after)
    assert cache.n_reuses == (1 if strain > -0.15 else 0)


def test_atoms_that_follow_a_small_strain_reuse_the_list(make_cache: Any, liquid: Any) -> None:
    case = liquid(4, 5.0)
    cache = make_cache(case.cutoff, 0.5)
    cache.update(*case[:3])
    # A far atom moves by more than half the skin, but with the cell.
    far = case.positions + 40 * case.cell.sum(axis=0)
    cache.update(far * 1.01, case.cell * 1.01, ALL)
    assert (cache.n_builds, cache.n_reuses) == (1, 1)


def test_cell_alone_changes(make_cache: Any, check_edges: Any, liquid: Any) -> None:
    case = liquid(3, 4.0)
    cache = make_cache(case.cutoff)
    for factor in (1.0, 1.001, 0.98, 1.02, 0.9):
        now = case._replace(cell=case.cell * factor)
        check_edges(cache.update(*now[:3]), now)


@given(
    seed=st.integers(0, 2**32 - 1),
    n_atoms=st.integers(1, 12),
    pbc=st.tuples(*[st.booleans()] * 3),
    skin=st.sampled_from([0.0, 0.3, 1.0]),
    step=st.sampled_from([0.02, 0.1, 0.4]),
    npt=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_walks_with_wraps_and_strain(
    make_cache: Any,
    check_edges: Any,
    liquid: Any,
    seed: int,
    n_atoms: int,
    pbc: tuple[bool, ...],
    skin: float,
    step: float,
    npt: bool,
) -> None:
    rng = np.random.default_rng(seed)
    periodic = np.array(pbc)
    cell = TRICLINIC + rng.normal(0, 0.3, (3, 3))
    case = liquid(1, 4.5)._replace(
        positions=rng.uniform(-9, 9, (n_atoms, 3)), cell=cell, pbc=periodic
    )
    cache = make_cache(case.cutoff, skin)
    for _ in range(6):
        check_edges(cache.update(*case[:3]), case)
        jumps = rng.integers(-2, 3, (n_atoms, 3)) * periodic * (rng.random((n_atoms, 1)) < 0.3)
        positions = case.positions + rng.normal(0, step, (n_atoms, 3)) + jumps @ case.cell
        if npt:
            deformation = np.eye(3) + rng.normal(0, 0.01, (3, 3))
            positions, cell = positions @ deformation, case.cell @ deformation
        case = case._replace(positions=positions, cell=cell)
    assert cache.n_builds + cache.n_reuses == 6
    if skin == 0.0:
        assert cache.n_reuses == 0


def test_wrapping_by_the_caller_costs_no_build(make_cache: Any, liquid: Any) -> None:
    case = liquid(3, 4.0)
    cache = make_cache(case.cutoff)
    first = cache.update(*case[:3])
    assert cache._anchor is not None
    wraps_at_build = cache._anchor.wraps.numpy().copy()
    jumps = np.random.default_rng(0).integers(-7, 8, case.positions.shape)
    second = cache.update(case.positions + jumps @ case.cell, case.cell, ALL)
    assert (cache.n_builds, cache.n_reuses) == (1, 1)
    torch.testing.assert_close(first.vectors, second.vectors, rtol=0, atol=1e-12)
    assert torch.equal(first.src, second.src)
    # Remembered, so that later steps need not find the jumps again.
    assert cache._anchor is not None
    np.testing.assert_array_equal(cache._anchor.wraps.numpy(), jumps + wraps_at_build)


@pytest.mark.parametrize("change", ["number of atoms", "pbc", "reset", "moved"])
def test_changes_that_build(change: str, make_cache: Any, liquid: Any, check_edges: Any) -> None:
    case = liquid(3, 4.0)
    cache = make_cache(case.cutoff)
    cache.update(*case[:3])
    cache.update(*case[:3])
    assert (cache.n_builds, cache.n_reuses) == (1, 1)
    positions, pbc = case.positions.copy(), ALL.copy()
    if change == "number of atoms":
        positions = positions[:-1]
    elif change == "pbc":
        pbc[1] = False
    elif change == "reset":
        cache.reset()
    else:
        positions[5] += 0.16  # 0.277 Å, more than half the skin
    now = case._replace(positions=positions, pbc=pbc)
    check_edges(cache.update(*now[:3]), now)
    assert (cache.n_builds, cache.n_reuses) == (2, 1)


def test_meaningless_cell_of_a_molecule_is_ignored(make_cache: Any) -> None:
    molecule = np.array([[0.0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0]])
    sheared = np.array([[3.0, 0, 0], [2.9, 0.1, 0], [0, 0, 3]])
    cells = [np.zeros((3, 3)), np.eye(3), 3 * np.eye(3), 50 * np.eye(3), sheared]
    cache = make_cache(4.0)
    results = [cache.update(molecule, cell, ~ALL) for cell in cells]
    assert cache.n_builds == 1
    for edges in results[1:]:
        assert torch.equal(edges.vectors, results[0].vectors)
        assert torch.equal(edges.src, results[0].src)


def test_restore_repeats_the_edges_bit_for_bit(make_cache: Any, liquid: Any) -> None:
    case = liquid(3, 4.0)
    rng = np.random.default_rng(3)
    cache = make_cache(case.cutoff)
    assert cache.reference_state() is None
    positions, cell = case.positions + 3 * case.cell[0], case.cell
    cache.update(positions, cell, ALL)
    np.testing.assert_array_equal(cache.reference_state().positions, positions)
    for k in range(6):
        # Far from the build, and wrapped on the way.
        positions = positions + rng.normal(0, 0.02, positions.shape)
        positions[k] -= case.cell[k % 3]
        cell = cell * 1.0005
        edges = cache.update(positions, cell, ALL)
    resumed = make_cache(case.cutoff)
    resumed.restore(cache.reference_state())
    again = resumed.update(positions, cell, ALL)
    assert resumed.n_reuses == 1
    for name, expected, got in zip(Edges._fields, edges, again, strict=True):
        assert torch.equal(expected, got), name
    state = cache.reference_state()
    assert state is not None
    assert not np.array_equal(state.positions, positions)
    cache.restore(None)
    assert cache.reference_state() is None


@pytest.mark.parametrize(("positions", "pair"), [
    ([[0.0, 0, 0], [0, 0, 3], [0, 0, 3]], {1, 2}),
    ([[0.0, 0, 0], [9.0, 0, 0]], {0, 1}),
    ([[0.0, 0, 0], [1e-5, 0, 0]], None),
])  # fmt: skip
def test_coincident_atoms(
    positions: list[list[float]], pair: set[int] | None, make_cache: Any
) -> None:
    cache = make_cache(4.0)
    assert cache.coincident_pair() is None
    edges = cache.update(positions, 9.0 * np.eye(3), ALL)
    found = cache.coincident_pair()
    assert (found if found is None else set(found)) == pair
    assert bool((edges.vectors.norm(dim=1) > 0).all())


def test_crowded_cube(make_cache: Any, check_edges: Any, liquid: Any) -> None:
    rng = np.random.default_rng(14)
    positions = np.zeros((0, 3))
    while len(positions) < 1000:
        trial = rng.uniform(0, 10, 3)
        gaps = positions - trial
        gaps -= 10 * np.rint(gaps / 10)
        if (np.linalg.norm(gaps, axis=1) > 0.7).all():
            positions = np.vstack([positions, trial])
    case = liquid(1, 5.0)._replace(positions=positions, cell=10 * np.eye(3))
    edges = make_cache(case.cutoff).update(*case[:3])
    assert edges.n_edges / 1000 == pytest.approx(4 / 3 * np.pi * 125, rel=0.02)
    check_edges(edges, case)


def test_thin_needle_has_shifts_beyond_a_byte(
    make_cache: Any, check_edges: Any, liquid: Any
) -> None:
    cell = np.diag([0.02, 30.0, 30.0])
    positions = np.array([[0.0, 0, 0], [0.01, 4.0, 0]])
    case = liquid(1, 6.0)._replace(positions=positions, cell=cell, pbc=ALL)
    check_edges(make_cache(case.cutoff, 0.3).update(*case[:3]), case)


def test_inputs_of_other_types_give_the_same(make_cache: Any, load_case: Any) -> None:
    case = load_case("rotated_cell")
    frozen = case.positions.copy()
    frozen.flags.writeable = False
    tensor = torch.tensor(case.positions, requires_grad=True)
    expected = make_cache(case.cutoff).update(*case[:3])
    for positions, cell, pbc in (
        (frozen, case.cell.tolist(), case.pbc.tolist()),
        (tensor, torch.tensor(case.cell), torch.tensor(case.pbc)),
    ):
        edges = make_cache(case.cutoff).update(positions, cell, pbc)
        assert torch.equal(edges.vectors, expected.vectors)
        assert not edges.vectors.requires_grad


@pytest.mark.parametrize(("arguments", "words"), [
    ({"cutoff": 0.0}, "cutoff is 0.0"),
    ({"cutoff": float("nan")}, "cutoff is nan"),
    ({"cutoff": 4.0, "skin": 1e9}, "from 0 to 20"),
    ({"cutoff": 4.0, "skin": "0.5"}, "skin is '0.5'"),
    ({"cutoff": 4.0, "skin": -0.1}, "skin is -0.1"),
    ({"cutoff": 4.0, "backend": "magic"}, "possible are auto, matscipy, vesin"),
])  # fmt: skip
def test_impossible_settings(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        NeighborCache(**arguments)


@pytest.mark.parametrize(("positions", "cell", "pbc", "words"), [
    (np.zeros((2, 2)), np.eye(3), ALL, "positions have shape"),
    (np.zeros((2, 3)), np.ones(3), ALL, "cell has shape"),
    (np.zeros((2, 3)), np.eye(3), [True], "pbc has shape"),
])  # fmt: skip
def test_wrong_shapes(positions: Any, cell: Any, pbc: Any, words: str, make_cache: Any) -> None:
    cache: NeighborCache = make_cache(4.0)
    cache.update([[0.0, 0, 0], [1.0, 1, 1]], 9 * np.eye(3), ALL)
    with pytest.raises(ValueError, match=words):
        cache.update(positions, cell, pbc)


def test_no_skin_searches_anew_even_where_nothing_moved(make_cache: Any, liquid: Any) -> None:
    case = liquid(3, 4.0)
    cache = make_cache(case.cutoff, 0.0)
    for _ in range(3):
        cache.update(*case[:3])
    assert (cache.n_builds, cache.n_reuses) == (3, 0)


def test_a_cell_that_a_build_refuses_is_refused_on_reuse():
    cache = NeighborCache(4.0)
    positions, pbc = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), np.full(3, True)
    cache.update(positions, 1e9 * np.eye(3), pbc)
    with pytest.raises(StructureError, match="at most 1e\\+10"):
        cache.update(positions, 1e12 * np.eye(3), pbc)
