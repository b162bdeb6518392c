"""Libraries behind one signature: when vesin is not to be trusted, matscipy takes over."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from md_gie.neighbors import build
from md_gie.neighbors.geometry import complete_cell


@pytest.mark.parametrize(("positions", "cell", "pbc", "safe"), [
    ([[0.0, 0, 0], [1900, 1900, 0]], np.zeros((3, 3)), [0, 0, 0], False),
    ([[0.0, 0, 0], [5, 5, 5]], np.diag([3000.0, 3000, 5]), [1, 1, 1], False),
    ([[0.0, 0, 0], [0, 0, 1e5]], np.diag([6.0, 6, 0]), [1, 1, 0], False),
    ([[0.0, 0, 0], [5, 5, 5]], 60.0 * np.eye(3), [1, 1, 1], True),
])  # fmt: skip
def test_sizes_at_which_vesin_fails(positions: Any, cell: Any, pbc: Any, safe: bool) -> None:
    where, periodic = torch.tensor(positions, dtype=torch.float64), np.array(pbc, bool)
    full = complete_cell(cell, periodic)
    assert build.vesin_is_safe(where, full, periodic, 6.0) is safe


@pytest.mark.parametrize(("second", "expected"), [
    ([1.0, 2.0, 3.0], True),
    ([5.0, 2.0, 3.0], True),
    ([1.0, 2.0, 3.001], False),
    ([1.0, 9.0, 3.0], False),
])  # fmt: skip
def test_coincident_atoms_are_seen(second: list[float], expected: bool) -> None:
    cell, pbc = np.diag([4.0, 7.0, 1.0]), np.array([True, False, False])
    where = torch.tensor([[1.0, 2.0, 3.0], [3.0, 3.0, 3.0], second], dtype=torch.float64)
    assert build.has_coincident(where, cell, pbc) is expected
    boundary = torch.tensor([[0.0, 1, 1], [4.0, 1, 1]], dtype=torch.float64)
    assert build.has_coincident(boundary, cell, pbc)


def test_overflow_in_vesin_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    class Overflowing:
        def __init__(self, **settings: Any) -> None:
            assert settings["full_list"]

        def compute(self, **inputs: Any) -> None:
            raise RuntimeError("too many pairs")

    monkeypatch.setitem(sys.modules, "vesin", SimpleNamespace(NeighborList=Overflowing))
    where = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 1]], dtype=torch.float64)
    arguments = (where, 3.0 * np.eye(3), np.ones(3, bool), 4.0)
    expected, got = build.build_matscipy(*arguments), build.build_vesin(*arguments)
    assert len(got.src) > 6
    for one, other in zip(expected, got, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("far", [[1900.0, 1900.0, 0.0], [0.0, 0.0, 0.0]])
def test_vesin_is_not_called_where_it_fails(
    far: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def called(**settings: Any) -> None:
        pytest.fail("vesin was called")

    monkeypatch.setitem(sys.modules, "vesin", SimpleNamespace(NeighborList=called))
    where = torch.tensor([[0.0, 0, 0], far], dtype=torch.float64)
    pairs = build.build_vesin(where, np.eye(3), np.zeros(3, bool), 6.0)
    assert len(pairs.src) == (0 if any(far) else 2)


def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "is_installed", lambda backend: False)
    with pytest.raises(ValueError, match="needs the package vesin, which is not installed"):
        build.choose_builder("vesin", torch.device("cpu"))
    assert build.choose_builder("auto", torch.device("cuda")) is build.build_matscipy


def test_cuda_takes_vesin_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "is_installed", lambda backend: True)
    assert build.choose_builder("auto", torch.device("cuda")) is build.build_vesin
    assert build.choose_builder("auto", torch.device("cpu")) is build.build_matscipy
