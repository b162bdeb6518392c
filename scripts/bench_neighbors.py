"""Time the neighbor cache: build, reused step, and their mean along a moving liquid.

Atoms at water's number density (0.1 per Å³) fly with thermal velocities of hydrogen at 330 K
and no forces. They leave the skin sooner than in a liquid, so the mean is an upper bound.
"""

import argparse
import json
import math
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import md_gie.neighbors.build as build
from md_gie.neighbors import NeighborCache
from md_gie.units import AMU_A2_FS2_EV, BOLTZMANN_EV_K

DENSITY = 0.1  # atoms/Å³
TEMPERATURE_K = 330.0
HYDROGEN_AMU = 1.008
RESULTS = Path(__file__).parent / "results" / "neighbors.json"


def liquid(n_atoms: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    side = round(n_atoms ** (1 / 3))
    spacing = DENSITY ** (-1 / 3)
    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)
    jitter = np.random.default_rng(seed).uniform(-0.3, 0.3, grid.shape)
    return grid * spacing + jitter, np.eye(3) * side * spacing


def milliseconds(work: Callable[[], Any], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return 1e3 * (time.perf_counter() - start)


def measure(options: argparse.Namespace, backend: str, n_atoms: int) -> dict[str, Any]:
    device = torch.device(options.device)
    start, cell = liquid(n_atoms, options.seed)
    pbc = np.ones(3, dtype=bool)
    positions = torch.tensor(start, device=device)
    cache = NeighborCache(options.cutoff, options.skin, device=device, backend=backend)
    n_edges = cache.update(positions, cell, pbc).n_edges

    def rebuild() -> None:
        cache.reset()
        cache.update(positions, cell, pbc)

    rebuild()
    builds = [milliseconds(rebuild, device) for _ in range(options.repeats)]
    rng = np.random.default_rng(options.seed)
    shaken = positions + torch.tensor(rng.uniform(-0.02, 0.02, start.shape), device=device)
    cache.update(shaken, cell, pbc)
    reuses = [
        milliseconds(lambda: cache.update(shaken, cell, pbc), device)
        for _ in range(3 * options.repeats)
    ]
    sigma = math.sqrt(BOLTZMANN_EV_K * TEMPERATURE_K / (HYDROGEN_AMU * AMU_A2_FS2_EV))
    moves = torch.tensor(rng.normal(0, sigma * options.timestep_fs, start.shape), device=device)
    cache.reset()
    before = cache.n_builds
    flight = [
        milliseconds(lambda k=k: cache.update(positions + k * moves, cell, pbc), device)  # type: ignore[misc]
        for k in range(options.steps)
    ]
    return {
        "backend": backend,
        "n_atoms": len(start),
        "n_edges": n_edges,
        "build_ms": statistics.median(builds),
        "build_min_ms": min(builds),
        "reuse_ms": statistics.median(reuses),
        "reuse_min_ms": min(reuses),
        "mean_step_ms": statistics.fmean(flight),
        "steps_per_build": options.steps / (cache.n_builds - before),
    }


def backends_for(device: torch.device) -> list[str]:
    installed = [name for name in build.BUILDERS if build.is_installed(name)]
    return installed if device.type == "cuda" else installed[:1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--backends", nargs="+")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--cutoff", type=float, default=6.0, help="Å")
    parser.add_argument("--skin", type=float, default=0.5, help="Å")
    parser.add_argument("--timestep-fs", type=float, default=0.5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    rows = []
    for backend in options.backends or backends_for(device):
        for size in options.sizes:
            row = measure(options, backend, size)
            rows.append(row)
            print(
                f"{row['backend']:10s} {row['n_atoms']:7d} atoms {row['n_edges']:9d} edges: build "
                f"{row['build_ms']:8.2f} ms, reuse {row['reuse_ms']:7.3f} ms, mean "
                f"{row['mean_step_ms']:7.3f} ms/step ({row['steps_per_build']:.1f} steps a build)"
            )
    on_cuda = device.type == "cuda"
    report = {
        "settings": {key: str(value) for key, value in vars(options).items() if key != "output"},
        "machine": torch.cuda.get_device_name(device) if on_cuda else platform.machine(),
        "torch": torch.__version__,
        "rows": rows,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
