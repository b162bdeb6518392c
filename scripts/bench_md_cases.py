"""Models and frames of ``bench_md.py``: published shapes with random parameters, and water."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from make_water_box import AVOGADRO, MOLAR_MASS, place

from md_gie.model import DPA4, DPA4Config, write_checkpoint
from md_gie.training.initialize import initialize
from md_gie.units import AMU_A2_FS2_EV, BOLTZMANN_EV_K

DENSITY = 0.997  # g/cm³
TEMPERATURE_K = 330.0
MASSES = {"O": 15.999, "H": 1.008}

PUBLISHED: dict[str, Any] = {
    "type": "dpa4",
    "rcut": 6.0,
    "sel": 160,
    "n_radial": 16,
    "mmax": 1,
    "kmax": 1,
    "n_blocks": 2,
    "mixing_layers": 3,
    "n_focus": 1,
    "edge_norm": True,
    "message_node_so3": True,
    "ffn_so3_grid": True,
    "grid_branch": [0, 0, 1],
    "so3_readout": "mlp",
    "radial_so2_mode": "degree_channel",
    "precision": "float32",
}
GRADES: dict[str, dict[str, Any]] = {
    "nano": {"channels": 32, "lmax": 1, "radial_so2_mode": "none"},
    "mini": {"channels": 32, "lmax": 2},
    "neo": {"channels": 32, "lmax": 3, "n_focus": 2},
    "air": {"channels": 64, "lmax": 3, "n_blocks": 3, "mixing_layers": 4},
    "plus": {"channels": 64, "lmax": 4, "n_blocks": 4, "mixing_layers": 4, "radial_so2_rank": 2},
    "pro": {
        "channels": 64, "lmax": 5, "n_blocks": 6, "mixing_layers": 4, "radial_so2_rank": 2,
        "n_focus": 2, "so3_readout": "none",
    },
}  # fmt: skip


def make_model(grade: str, path: Path, seed: int, species: tuple[str, ...] = ("O", "H")) -> None:
    descriptor = {**PUBLISHED, **GRADES[grade]}
    fitting = {"type": "dpa4_ener", "neuron": [0], "precision": "float32"}
    params = {
        "type": "dpa4", "type_map": [*species], "descriptor": descriptor, "fitting_net": fitting
    }  # fmt: skip
    config = DPA4Config.from_model_params(params)
    model = DPA4(config, dtype=torch.float64)
    initialize(model, config, seed)
    write_checkpoint(path, model)


def make_case(n_atoms: int, timestep_fs: float, path: Path, seed: int) -> int:
    """Write about ``n_atoms`` of water and one step of their flight; returns their number."""
    rng = np.random.default_rng(seed)
    molecules = max(1, round((n_atoms / 3) ** (1 / 3))) ** 3  # fills a lattice
    length = (molecules * MOLAR_MASS / AVOGADRO / DENSITY * 1e24) ** (1 / 3)
    positions = place(molecules, length, rng).reshape(-1, 3)
    symbols = ["O", "H", "H"] * molecules
    masses = np.array([MASSES[symbol] for symbol in symbols])
    sigma = np.sqrt(BOLTZMANN_EV_K * TEMPERATURE_K / (masses * AMU_A2_FS2_EV))
    moves = rng.normal(size=positions.shape) * sigma[:, None] * timestep_fs
    types = [0 if symbol == "O" else 1 for symbol in symbols]
    np.savez(
        path,
        positions=positions,
        moves=moves,
        cell=np.eye(3) * length,
        types=types,
        symbols=symbols,
    )
    return len(positions)
