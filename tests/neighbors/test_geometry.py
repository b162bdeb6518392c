"""Refusals before any library is called, and cells with axes that are not periodic."""

import re
from typing import Any

import numpy as np
import pytest

from md_gie.errors import NeighborOverflowError, StructureError
from md_gie.neighbors import NeighborCache, build, check_geometry
from md_gie.neighbors.geometry import complete_cell, deformation_between, image_table

ALL = np.ones(3, bool)
CUBE = 9.0 * np.eye(3)
PAIR = np.array([[0.0, 0, 0], [1.0, 1, 1]])
PLANAR = np.array([[4.0, 0, 0], [0, 4, 0], [4, 4, 0]])


def replaced(array: Any, index: tuple[int, int], value: float) -> Any:
    out = array.copy()
    out[index] = value
    return out


REFUSED = {
    "NaN position": (replaced(PAIR, (1, 0), np.nan), CUBE, ALL, "the first is atom 1"),
    "inf position": (replaced(PAIR, (0, 2), np.inf), CUBE, ALL, "the first is atom 0"),
    "NaN cell": (PAIR, replaced(CUBE, (0, 0), np.nan), ALL, "the cell .* is not finite"),
    "immense": (replaced(PAIR, (1, 0), 1e13), CUBE, ALL, "1e+13 Å, where float64"),
    "zero b": (PAIR, replaced(CUBE, (1, 1), 0.0), ALL, "vector b is zero"),
    "planar": (PAIR, PLANAR, ALL, "vectors a, b, c are linearly dependent"),
    "nearly planar": (PAIR, replaced(PLANAR, (2, 2), 1e-6), ALL, "a, b, c are linearly dependent"),
    "parallel a, c": (
        PAIR, np.array([[4.0, 0, 0], [0, 4, 0], [-8, 0, 0]]), np.array([True, False, True]),
        "vectors a, c are",
    ),
    "collapsed": (PAIR, 0.01 * np.eye(3), ALL, "along a are only 0.01 Å apart"),
    "sheared flat": (
        PAIR, np.array([[9.0, 0, 0], [9, 1e-4, 0], [0, 0, 0.05]]), ALL, "planes along a"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_any_search(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    positions, cell, pbc, words = REFUSED[name]
    pattern = words if ".*" in words else re.escape(words)
    with pytest.raises(StructureError, match=pattern):
        check_geometry(positions, cell, pbc, 6.0)

    def searched(*arguments: Any) -> None:
        pytest.fail("the library was called")

    monkeypatch.setitem(build.BUILDERS, "matscipy", searched)
    with pytest.raises(StructureError, match=pattern):
        NeighborCache(6.0).update(positions, cell, pbc)


def test_too_many_edges() -> None:
    positions = np.random.default_rng(0).uniform(0, 5, (20_000, 3))
    with pytest.raises(NeighborOverflowError, match="20000 atoms in 125 Å³"):
        check_geometry(positions, 5.0 * np.eye(3), ALL, 30.0)
    with pytest.raises(NeighborOverflowError, match="20000 atoms"):
        check_geometry(
            positions * 0.1, np.diag([0.001, 1, 1]), np.array([True, False, False]), 30.0
        )
    check_geometry(positions, 5.0 * np.eye(3), ALL, 3.0)


@pytest.mark.parametrize(("cell", "pbc"), [
    (np.zeros((3, 3)), [0, 0, 0]),
    (np.diag([4.0, 4, 0]), [1, 1, 0]),
    (PLANAR, [1, 1, 0]),
    (PLANAR, [0, 1, 1]),
    (np.diag([3.0, 3, 3e6]), [1, 1, 1]),
    (np.array([[9.0, 0, 0], [9, 0.3, 0], [0, 0, 9]]), [1, 1, 1]),
])  # fmt: skip
def test_odd_cells_that_are_fine(cell: Any, pbc: list[int]) -> None:
    check_geometry(PAIR, cell, np.array(pbc, bool), 6.0)


def test_completed_rows_are_unit_normals() -> None:
    pbc = np.array([True, False, False])
    full = complete_cell(np.array([[1.0, 2, 3], [5, 5, 5], [0, 0, 0]]), pbc)
    np.testing.assert_array_equal(full[0], [1, 2, 3])
    np.testing.assert_allclose(full[1:] @ full.T, [[0, 1, 0], [0, 0, 1]], atol=1e-15)


def test_deformation_leaves_free_directions_alone() -> None:
    pbc = np.array([True, True, False])
    before = np.array([[4.0, 1, 0], [0, 5, 1], [7, 7, 7]])
    after = before @ (np.eye(3) + np.random.default_rng(0).normal(0, 0.05, (3, 3)))
    deformation = deformation_between(before, after, pbc)
    np.testing.assert_allclose(before[:2] @ deformation, after[:2], atol=1e-14)
    normal = np.cross(before[0], before[1])
    np.testing.assert_allclose(normal @ deformation, normal, atol=1e-13)
    np.testing.assert_array_equal(deformation_between(before, after, ~ALL), np.eye(3))


def test_opposite_images_have_exactly_opposite_vectors() -> None:
    # The count of a source's edges is taken from its row: both directions must round alike.
    table = image_table(np.random.default_rng(0).normal(0, 5, (3, 3)), (2, 1, 3))
    assert table.shape == (5 * 3 * 7, 3)
    np.testing.assert_array_equal(table, -table[::-1])
