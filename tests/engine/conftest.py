"""An engine on a small reference model, and edges of structures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from md_gie.engine import Engine, load_potential
from md_gie.neighbors import Edges, NeighborCache

DATA = Path(__file__).parent.parent / "data" / "dpa4"


@pytest.fixture
def data() -> Path:
    return DATA


@pytest.fixture(scope="module")
def engine() -> Engine:
    return load_potential(DATA / "p0_water_mini.pt", dtype="float64")


@pytest.fixture(scope="session")
def edges_of() -> Callable[..., Edges]:
    def build(positions: Any, cell: Any = None, pbc: Any = False, cutoff: float = 6.0) -> Edges:
        box = np.zeros((3, 3)) if cell is None else cell
        return NeighborCache(cutoff, 0.0).update(positions, box, np.broadcast_to(pbc, (3,)))

    return build


@pytest.fixture(scope="session")
def triclinic() -> dict[str, Any]:
    arrays = np.load(DATA / "p0_water_mini.npz")
    return {key: arrays[f"triclinic.{key}"] for key in ("coord", "cell", "types")}
