"""Models against DeePMD-kit's numbers: energies, forces, virials, and stages on the way."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from md_gie.engine import load_potential
from md_gie.model import load_model
from md_gie.model.embedding import film_logits
from md_gie.neighbors import Edges, NeighborCache

HERE = Path(__file__).parent.parent / "data" / "dpa4"
MORE = os.environ.get("MD_GIE_FIXTURES")
FOLDERS = [HERE, *([Path(MORE)] if MORE else [])]
REFUSED = ("p1_radial_only", "p1_s2_grids", "p2_zbl_exclude")
MODELS = {
    path.stem: path
    for folder in FOLDERS
    for path in sorted(folder.glob("*.npz"))
    if path.stem not in REFUSED
}

FLOAT64 = 1e-10
FLOAT32_ENERGY = 5e-6  # of max(1, |E| / N), per atom
FLOAT32_FORCES = 1e-5  # of the largest component in the file
LOSSY = {"p1_heads_pyramid": 5e-5, "p1_version10": 5e-5}  # their maker loses as much

every_model = pytest.mark.parametrize("name", MODELS)


def structures(arrays: Any) -> list[str]:
    return sorted({key.split(".")[0] for key in arrays.files} - {"meta"})


def edges_of(arrays: Any, structure: str, cutoff: float) -> Edges:
    cell = arrays[f"{structure}.cell"] if f"{structure}.cell" in arrays.files else np.zeros((3, 3))
    pbc = np.broadcast_to(arrays[f"{structure}.pbc"], (3,))
    return NeighborCache(cutoff, 0.0).update(arrays[f"{structure}.coord"], cell, pbc)


def relative(got: torch.Tensor, want: Any) -> float:
    want = np.asarray(want, dtype=np.float64).reshape(got.shape)
    return float(np.abs(got.numpy() - want).max() / max(1.0, np.abs(want).max()))


@pytest.mark.parametrize("kernels", ["auto", "reference"])
@every_model
def test_float64(name: str, kernels: str) -> None:
    arrays = np.load(MODELS[name])
    engine = load_potential(MODELS[name].with_suffix(".pt"), dtype="float64", kernels=kernels)
    for structure in structures(arrays):
        types = torch.from_numpy(arrays[f"{structure}.types"])
        result = engine.evaluate(types, edges_of(arrays, structure, engine.cutoff))
        errors = {
            "energy": relative(result.energy, arrays[f"{structure}.energy"]),
            "atom_energy": relative(result.atomic_energies, arrays[f"{structure}.atom_energy"]),
            "force": relative(result.forces, arrays[f"{structure}.force"]),
            "virial": relative(result.virial, arrays[f"{structure}.virial"]),
        }
        assert max(errors.values()) < FLOAT64, (structure, errors)


@pytest.mark.parametrize("kernels", ["auto", "reference"])
@every_model
def test_float32(name: str, kernels: str) -> None:
    arrays = np.load(MODELS[name])
    engine = load_potential(MODELS[name].with_suffix(".pt"), kernels=kernels)
    bar, names = LOSSY.get(name, FLOAT32_FORCES), structures(arrays)
    largest = {
        key: max(np.abs(arrays[f"{structure}.{key}"]).max() for structure in names)
        for key in ("force", "virial")
    }
    for structure in names:
        types = torch.from_numpy(arrays[f"{structure}.types"])
        result = engine.evaluate(types, edges_of(arrays, structure, engine.cutoff))
        energy, n_atoms = float(arrays[f"{structure}.energy"].squeeze()), len(types)
        bound = FLOAT32_ENERGY * max(1.0, abs(energy) / n_atoms) * n_atoms
        assert abs(float(result.energy) - energy) < bound, structure
        for got, key in ((result.forces, "force"), (result.virial, "virial")):
            want = torch.from_numpy(arrays[f"{structure}.{key}"]).reshape(got.shape)
            assert (got - want).abs().max() <= bar * largest[key], (structure, key)


@pytest.mark.parametrize(
    "name", [n for n in MODELS if "molecule.mid.gie" in np.load(MODELS[n]).files]
)
def test_stages(name: str) -> None:
    arrays = np.load(MODELS[name])
    mid = {
        key.removeprefix("molecule.mid."): torch.from_numpy(arrays[key])
        for key in arrays.files
        if key.startswith("molecule.mid.")
    }
    model = load_model(MODELS[name].with_suffix(".pt"))
    edges = edges_of(arrays, "molecule", model.config.rcut)
    types = torch.from_numpy(arrays["molecule.types"])
    order = matching_edges(edges, mid["in.edge_index"])
    with torch.no_grad():
        f = model.fold()
        geometry = model.geometry(f.geometry, types, edges, edges.vectors, fused=False)
        same(geometry.radial.weight, mid["edge.edge_env"][order].squeeze(1))
        same(geometry.radial.basis, mid["edge.edge_rbf"][order])
        same(geometry.degree_factor, mid["edge.inv_sqrt_deg"].flatten())
        zonal = torch.cat([rows[:, 0] for rows in geometry.frames[1:]], dim=1)
        same(zonal, mid["zonal_coupling"][order])
        if "edge.D_full" in mid:
            same_up_to_roll(geometry.frames, mid["edge.D_full"][order])
        assert f.embedding.seed is not None
        logits = film_logits(f.embedding.seed, geometry, model.embedding.axis)
        raw = mid["film_logits"].chunk(2, dim=1)
        if (norms := f.embedding.seed.norms) is not None:
            raw = tuple(normed(x, scale) for x, scale in zip(raw, norms, strict=True))
        same(torch.stack(logits), torch.stack(raw))
        state = model.gie(f.gie, model.embedding(f.embedding, types, geometry), geometry)
        same(state[1:].transpose(0, 1), mid["gie"][:, 1:])
        for b, block in enumerate(model.blocks):
            state = block(f.blocks[b], state, geometry)
            if f"block{b}.out" in mid:
                rows = 1 if b == len(model.blocks) - 1 and model.config.readout == "none" else None
                same(state.transpose(0, 1)[:, :rows], mid[f"block{b}.out"].squeeze(2)[:, :rows])


def matching_edges(edges: Edges, index: torch.Tensor) -> torch.Tensor:
    """Number of each of our edges in the file's order (one edge for a pair in a molecule)."""
    numbers = {(int(s), int(d)): e for e, (s, d) in enumerate(index.T)}
    assert len(numbers) == edges.n_edges
    return torch.tensor(
        [numbers[s, d] for s, d in zip(edges.src.tolist(), edges.dst.tolist(), strict=True)]
    )


def normed(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-7) * scale


def same(got: torch.Tensor, want: torch.Tensor) -> None:
    scale = max(1.0, float(want.abs().max()))
    torch.testing.assert_close(got, want, rtol=0.0, atol=FLOAT64 * scale)


def same_up_to_roll(frames: list[torch.Tensor], full: torch.Tensor) -> None:
    """Rows 0 are equal; rows ±1 differ by one rotation within their pair, alike for all degrees."""
    rolls = []
    for degree, rows in enumerate(frames):
        centre = degree * degree + degree
        columns = slice(degree * degree, (degree + 1) ** 2)
        same(rows[:, 0], full[:, centre, columns])
        if degree:
            theirs = torch.stack([full[:, centre - 1, columns], full[:, centre + 1, columns]], 1)
            roll = theirs @ rows[:, 1:3].transpose(1, 2)
            same(roll @ rows[:, 1:3], theirs)
            same(torch.linalg.det(roll), torch.ones(len(roll), dtype=torch.float64))
            rolls.append(roll)
    for roll in rolls[1:]:
        same(roll, rolls[0])
