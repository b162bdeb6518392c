"""Time a force step of DPA4 models on diamond on a GPU, in every mode of the engine.

    python scripts/bench_engine.py -o scripts/results/engine_h200.json

A step is neighbors, energy, forces and virial of the next frame of a flight with thermal
velocities, so that the neighbor list is rebuilt as often as in a run; it ends when forces are on
the host. Models have the published shapes and random parameters.

    python scripts/bench_engine.py --make-references FOLDER

writes the models, and results in float64 by plain PyTorch on a CPU for a smaller, warmer box; with
``--references FOLDER`` the errors of every mode against them are measured too.
"""

import argparse
import gc
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench_machine import gpu
from bench_md_cases import GRADES, make_model
from bench_structures import diamond

from md_gie import NeighborCache, load_potential
from md_gie.engine.graph import GraphStep
from md_gie.units import AMU_A2_FS2_EV, BOLTZMANN_EV_K

CARBON_AMU = 12.011
TEMPERATURE_K = 300.0
CHECKED_ATOMS = 216
CHECKED_RATTLE = 0.1  # Å: forces of a crystal at a few hundred kelvin
MODES = ("eager", "capture", "compile", "graph")


class Flight:
    """Frames of atoms that move straight on, 0.5 fs apart."""

    def __init__(self, n_atoms: int, device: str) -> None:
        atoms = diamond(n_atoms)
        sigma = np.sqrt(BOLTZMANN_EV_K * TEMPERATURE_K / (CARBON_AMU * AMU_A2_FS2_EV))
        moves = np.random.default_rng(3).normal(scale=0.5 * sigma, size=atoms.positions.shape)
        self.cell, self.pbc = atoms.cell.array, atoms.pbc
        self._start = torch.tensor(atoms.positions, device=device)
        self._moves = torch.tensor(moves, device=device)

    def frame(self, step: int) -> torch.Tensor:
        # Back and forth, so that long runs stay near a crystal.
        phase = step % 200
        return self._start + self._moves * (phase if phase < 100 else 200 - phase)


def in_mode(engine: Any, mode: str) -> Any:
    """The same engine with another step: a graph wraps a compiled step, which wraps a plain one."""
    graph = engine.graph = getattr(engine, "graph", engine.step)
    eager = graph.step.step
    if mode == "capture":
        engine.step = GraphStep(eager, engine.device, engine.cutoff)
    else:
        engine.step = {"graph": graph, "compile": graph.step, "eager": eager}[mode]
    return engine


def measure(engine: Any, mode: str, n_atoms: int, options: argparse.Namespace) -> dict[str, Any]:
    engine, flight = in_mode(engine, mode), Flight(n_atoms, "cuda")
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    cache = NeighborCache(engine.cutoff, options.skin, device="cuda")
    types = engine.types_of([6] * n_atoms)

    def step(number: int) -> int:
        edges = cache.update(flight.frame(number), flight.cell, flight.pbc)
        engine.evaluate(types, edges).forces.cpu()
        return edges.n_edges

    start = time.perf_counter()
    n_edges = step(0)
    first = time.perf_counter() - start
    for number in range(1, 4):
        step(number)
    samples = []
    for number in range(4, 4 + (options.repeats if n_atoms <= 4096 else 8)):
        start = time.perf_counter()
        step(number)
        samples.append(1e3 * (time.perf_counter() - start))
    return {
        "mode": mode, "n_atoms": n_atoms, "n_edges": n_edges, "first_s": first,
        "ms": statistics.median(samples), "ms_mean": statistics.fmean(samples),
        "us_per_atom": 1e3 * statistics.median(samples) / n_atoms,
        "peak_GB": torch.cuda.max_memory_allocated() / 1e9,
        "builds": cache.n_builds,
    }  # fmt: skip


def checked_edges() -> Any:
    atoms = diamond(CHECKED_ATOMS, rattle=CHECKED_RATTLE)
    return NeighborCache(6.0, 0.0).update(atoms.positions, atoms.cell.array, atoms.pbc)


def make_references(folder: Path, grades: list[str]) -> None:
    edges = checked_edges()
    for grade in grades:
        model = folder / f"{grade}.pt"
        make_model(grade, model, 1, ("C",))
        engine = load_potential(model, device="cpu", dtype="float64", kernels="reference")
        result = engine.evaluate(engine.types_of([6] * CHECKED_ATOMS), edges)
        arrays = {name: getattr(result, name).numpy() for name in ("forces", "atomic_energies")}
        np.savez(folder / f"{grade}.npz", **arrays)


def errors(engine: Any, model: Path, modes: list[str]) -> dict[str, dict[str, float]]:
    """Largest differences from the reference, forces over the largest force."""
    expected = np.load(model.with_suffix(".npz"))
    edges = checked_edges()
    on_device = type(edges)(*(tensor.cuda() for tensor in edges))
    out = {}
    forces: dict[str, np.ndarray] = {}
    scale = np.abs(expected["forces"]).max()
    for mode in modes:
        engine = in_mode(engine, mode)
        types = engine.types_of([6] * CHECKED_ATOMS)
        first, later = (engine.evaluate(types, on_device) for _ in range(2))
        forces[mode] = first.forces.cpu().numpy()
        energies = first.atomic_energies.cpu().numpy() - expected["atomic_energies"]
        out[mode] = {
            "forces": float(np.abs(forces[mode] - expected["forces"]).max() / scale),
            "forces_from_first_mode": float(np.abs(forces[mode] - forces[modes[0]]).max() / scale),
            "energy_eV_per_atom": float(abs(energies.mean())),
            "atomic_energy_eV": float(np.abs(energies).max()),
            "first_minus_later": float((first.forces - later.forces).abs().max()),
        }
    return out


def profile(engine: Any, mode: str, n_atoms: int) -> list[dict[str, Any]]:
    """Time of each kernel in one evaluation, largest first."""
    engine, flight = in_mode(engine, mode), Flight(n_atoms, "cuda")
    edges = NeighborCache(engine.cutoff, 0.0, device="cuda").update(
        flight.frame(0), flight.cell, flight.pbc
    )
    types = engine.types_of([6] * n_atoms)
    for _ in range(3):
        engine.evaluate(types, edges)
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as run:
        engine.evaluate(types, edges)
        torch.cuda.synchronize()
    rows = [
        {"kernel": item.key[:90], "ms": item.self_device_time_total / 1e3, "calls": item.count}
        for item in run.key_averages()
        if item.self_device_time_total > 0
    ]
    return sorted(rows, key=lambda row: -row["ms"])[:25]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--grades", nargs="+", choices=GRADES, default=["nano", "mini", "neo"])
    parser.add_argument("--atoms", type=int, nargs="+", default=[4096])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--profile", nargs="*", choices=MODES, default=[])
    parser.add_argument("--skin", type=float, default=0.5)
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--make-references", type=Path, metavar="FOLDER")
    parser.add_argument("--references", type=Path, metavar="FOLDER")
    parser.add_argument("-o", "--output", type=Path, default=Path("engine.json"))
    options = parser.parse_args()
    if options.make_references:
        make_references(options.make_references, options.grades)
        return
    results: dict[str, Any] = {
        "machine": gpu(),
        "rows": [],
        "errors": {},
        "profiles": {},
        "compilations": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        for grade in options.grades:
            one_grade(grade, Path(folder), options, results)
            options.output.write_text(json.dumps(results, indent=1) + "\n")


def one_grade(
    grade: str, folder: Path, options: argparse.Namespace, results: dict[str, Any]
) -> None:
    model = (options.references or folder) / f"{grade}.pt"
    if not options.references:
        make_model(grade, model, 1, ("C",))
    start = time.perf_counter()
    engine = load_potential(model, device="cuda", compile="graph", tf32=options.tf32)
    print(f"{grade}: traced in {time.perf_counter() - start:.1f} s", flush=True)
    if options.references:
        results["errors"][grade] = errors(engine, model, options.modes)
        print(grade, results["errors"][grade], flush=True)
    print(f"{grade}: compiled after {time.perf_counter() - start:.1f} s", flush=True)
    for mode in options.modes:
        # Every mode at the first size, the last mode at all of them.
        for n_atoms in options.atoms if mode == options.modes[-1] else options.atoms[:1]:
            try:
                row = measure(engine, mode, n_atoms, options)
            except torch.OutOfMemoryError as error:
                row = {"mode": mode, "n_atoms": n_atoms, "failed": str(error)[:200]}
            row = {"grade": grade, "tf32": options.tf32, **row}
            results["rows"].append(row)
            shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}
            print(shown, flush=True)
            gc.collect()
    results["compilations"][grade] = engine.graph.step.n_compilations
    for mode in options.profile:
        rows = profile(engine, mode, options.atoms[0])
        results["profiles"][f"{grade} {mode}"] = rows
        for item in rows[:16]:
            print(f"  {item['ms']:8.3f} ms {item['calls']:4d} x {item['kernel']}")


if __name__ == "__main__":
    main()
