"""Calculators with small random models of O, H and C, and atoms in every kind of cell."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ase import Atoms

from md_gie.calculators.ase_calculator import GIECalculator
from md_gie.engine import Evaluation

MODELS = Path(__file__).parents[1] / "data" / "dpa4"

# Lattice vectors in Å and periodic axes.
CELLS: dict[str, tuple[Any, str]] = {
    "cubic": ([[5.2, 0, 0], [0, 5.2, 0], [0, 0, 5.2]], "TTT"),
    "triclinic": ([[5.1, 0, 0], [1.2, 4.8, 0], [-0.7, 0.9, 5.5]], "TTT"),
    "skewed": ([[5.1, 0, 0], [9.5, 4.8, 0], [-11.0, 6.0, 5.5]], "TTT"),
    "left-handed": ([[0, 5.1, 0], [4.8, 0.3, 0], [0.4, 0.9, 5.5]], "TTT"),
    "slab": ([[5.1, 0, 0], [1.2, 4.8, 0], [0.5, -0.3, 9.0]], "TTF"),
    "rod": ([[7.0, 0.5, 0], [0, 5.0, 0.4], [0.2, 0, 8.0]], "FTF"),
    "molecule": ([[0, 0, 0], [0, 0, 0], [0, 0, 0]], "FFF"),
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread: on a busy machine, threads of so small systems mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def make_calculator() -> Callable[..., GIECalculator]:
    """Make calculators, in float64 unless told otherwise."""

    def make(model: str = "p0_water_mini", **settings: Any) -> GIECalculator:
        settings = {"dtype": "float64", "device": "cpu", **settings}
        return GIECalculator(MODELS / f"{model}.pt", **settings)

    return make


@pytest.fixture
def calculator(make_calculator: Callable[..., GIECalculator]) -> GIECalculator:
    return make_calculator()


@pytest.fixture(scope="session")
def make_atoms() -> Callable[..., Atoms]:
    """Make atoms at random, no two of them or of their images closer than 1.1 Å."""

    def make(kind: str = "triclinic", n_atoms: int = 7, seed: int = 3) -> Atoms:
        cell, pbc = CELLS[kind]
        atoms = Atoms(cell=cell, pbc=[axis == "T" for axis in pbc])
        box = np.array(CELLS["cubic"][0]) if kind == "molecule" else np.array(cell)
        rng = np.random.default_rng(seed)
        while len(atoms) < n_atoms:
            trial = atoms + Atoms("OHC"[len(atoms) % 3], positions=[rng.random(3) @ box])
            distances = trial.get_all_distances(mic=True)[-1, :-1]
            if len(trial) == 1 or distances.min() > 1.1:
                atoms = trial
        return atoms

    return make


@pytest.fixture
def crystal() -> Atoms:
    """Eight atoms of a rock-salt cell, slightly disordered."""
    atoms = Atoms("OHOHOHOH", cell=np.eye(3) * 4.4, pbc=True)
    corners = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]) * 2.2
    atoms.positions[::2], atoms.positions[1::2] = corners, corners + np.array([2.2, 0, 0])
    atoms.rattle(0.1, seed=5)
    return atoms


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Callable[[GIECalculator], Callable[[], int]]:
    """Count a calculator's evaluations: the returned function tells how many since it was asked."""

    def watch(calculator: GIECalculator) -> Callable[[], int]:
        engine, seen = calculator.engine, 0
        evaluate = engine.evaluate

        def counting(*args: Any, **options: Any) -> Evaluation:
            nonlocal seen
            seen += 1
            return evaluate(*args, **options)

        def read() -> int:
            nonlocal seen
            seen, before = 0, seen
            return before

        monkeypatch.setattr(engine, "evaluate", counting)
        return read

    return watch
