"""A small crystal and potentials of it: good ones, and ones with a flaw each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from md_gie.check import CheckReport, check_structure, dynamics
from md_gie.check.subject import Subject
from md_gie.engine import Evaluation
from md_gie.structure import Structure

MODEL = Path(__file__).parents[1] / "data" / "dpa4" / "p1_version10.pt"


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamics, "_MOST_STEPS", 16)


@pytest.fixture(scope="session")
def crystal() -> Structure:
    corners = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]) * 2.2
    positions = np.concatenate([corners, corners + np.array([2.2, 0, 0])])
    positions += np.random.default_rng(5).normal(scale=0.1, size=positions.shape)
    cell = np.array([[4.4, 0, 0], [0.5, 4.4, 0], [0, -0.3, 4.6]])
    return Structure(np.repeat([8, 1], 4), positions, cell, np.full(3, True))


@pytest.fixture(scope="session")
def check(crystal: Structure) -> Callable[..., CheckReport]:
    def run(structure: Structure = crystal, **settings: Any) -> CheckReport:
        settings = {"device": "cpu", "timestep_fs": 0.1, "compiles": False, **settings}
        return check_structure(structure, str(MODEL), **settings)

    return run


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Evaluation]], None]:
    """Pass every evaluation of engines loaded later through a function of it and the edges."""

    def change(flaw: Callable[..., Evaluation]) -> None:
        load = Subject.load

        def spoiled(self: Subject, **changes: Any) -> Any:
            engine = load(self, **changes)
            evaluate = engine.evaluate

            def flawed(types: torch.Tensor, edges: Any, **options: Any) -> Evaluation:
                return flaw(evaluate(types, edges, **options), edges)

            engine.evaluate = flawed  # type: ignore[method-assign]
            return engine

        monkeypatch.setattr(Subject, "load", spoiled)

    return change
