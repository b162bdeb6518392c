"""Small models with random parameters, and edges of small structures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from md_gie.model import DPA4, DPA4Config
from md_gie.neighbors import Edges, NeighborCache

DATA = Path(__file__).parent.parent / "data" / "dpa4"

# A model in which every box is at work, as small as can be.
DESCRIPTOR = {
    "rcut": 4.0, "channels": 8, "n_radial": 4, "lmax": 2, "n_blocks": 2, "mixing_layers": 2,
    "n_focus": 2, "message_node_so3": True, "ffn_so3_grid": True, "grid_branch": [0, 0, 1],
    "ffn_neurons": 8, "so3_readout": "mlp",
}  # fmt: skip


def params(**options: Any) -> dict[str, Any]:
    return {
        "type": "dpa4",
        "type_map": ["O", "H"],
        "descriptor": {**DESCRIPTOR, **options},
        "fitting_net": {"neuron": [0]},
    }


def random_model(**options: Any) -> DPA4:
    """Parameters of unit scale, so that each contributes; float64."""
    config = DPA4Config.from_model_params(params(**options))
    model, generator = DPA4(config, torch.float64), torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.normal_(generator=generator)
            if value.dim() > 1:
                value /= value.shape[-2] ** 0.5
            if name.endswith("adam_freqs"):
                value += torch.arange(1, value.shape[1] + 1) * np.pi / config.rcut
    return model


@pytest.fixture
def data() -> Path:
    return DATA


@pytest.fixture
def make_params() -> Callable[..., dict[str, Any]]:
    return params


@pytest.fixture(scope="session")
def make_model() -> Callable[..., DPA4]:
    return random_model


def build_edges(
    positions: Any, cell: Any = None, pbc: Any = False, *, cutoff: float = 4.0, skin: float = 0.0
) -> Edges:
    box = np.zeros((3, 3)) if cell is None else cell
    return NeighborCache(cutoff + skin, 0.0).update(positions, box, np.broadcast_to(pbc, (3,)))


def evaluate_model(model: DPA4, types: Tensor, edges: Edges) -> tuple[Tensor, Tensor]:
    leaf = edges.vectors.clone().requires_grad_()
    energies = model(types, edges, leaf)
    if not edges.n_edges:
        return energies.detach(), torch.zeros_like(leaf)
    return energies.detach(), torch.autograd.grad(energies.sum(), leaf)[0]


@pytest.fixture(scope="session")
def edges_of() -> Callable[..., Edges]:
    return build_edges


@pytest.fixture(scope="session")
def energy_and_gradient() -> Callable[[DPA4, Tensor, Edges], tuple[Tensor, Tensor]]:
    return evaluate_model
