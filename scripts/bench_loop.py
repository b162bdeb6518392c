"""Time what a run takes beyond the model, and the same run driven through ASE's integrators.

    python scripts/bench_loop.py -o scripts/results/loop_cpu.json

Water with a published shape of random parameters, float32. A run is `md-gie run` as users start it:
neighbors, integration, guards, a frame every 10 steps and a restart file. ASE's integrators take
the same structure, velocities and timestep through GIECalculator, and write a frame every 10 steps
to ASE's own format. Overhead is all time that is not the model's evaluation, relative to it.
Repeats of the two alternate; medians and spreads are printed.
"""

import argparse
import io
import json
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ase import Atoms, units
from ase.io import Trajectory
from ase.md.bussi import Bussi
from ase.md.langevinbaoab import LangevinBAOAB
from ase.md.nose_hoover_chain import MTKNPT, IsotropicMTKNPT, NoseHooverChainNVT
from ase.md.verlet import VelocityVerlet
from bench_md_cases import GRADES, make_case, make_model

import md_gie
from md_gie import GIECalculator, Structure
from md_gie.md import maxwell_boltzmann, run_from_config
from md_gie.structure import write_structure

TEMPERATURE_K, SEED, EVERY = 330.0, 1, 10
MODES = {"false": False, "true": True, "graph": "graph", "capture": "capture"}
CONFIG = """
[model]
name = "model.pt"
device = "{device}"
compile = {compile}
[structure]
file = "water.extxyz"
[neighbors]
skin_A = {skin}
[md]
ensemble = "{ensemble}"
timestep_fs = {timestep}
n_steps = {steps}
seed = 1
{settings}
[output]
trajectory = "run.h5md"
trajectory_every = 10
thermo_every = 10
restart_every = 100
[guards]
min_distance_A = 0
max_energy_jump_eV = 1e6
max_temperature_K = 1e9
max_temperature_jump_K = 1e9
"""
HEAT = "temperature_K = 330\n"
BAROSTAT = HEAT + (
    "thermostat_fs = 100\nbarostat_fs = 1000\ncompressibility_per_GPa = 0.5\npressure_GPa = 0\n"
)
SETTINGS = {
    "nve": "",
    "nvt-langevin": HEAT + "friction_per_ps = 5",
    "nvt-bussi": HEAT + "thermostat_fs = 100",
    "nvt-nose-hoover": HEAT + "thermostat_fs = 100",
    "npt-isotropic": BAROSTAT,
    "npt-full-cell": BAROSTAT,
}


def ase_dynamics(ensemble: str, atoms: Atoms, timestep_fs: float) -> Any:
    """Return ASE's integrator of an ensemble: the same algorithm, or the nearest that it has."""
    dt, heat = timestep_fs * units.fs, {"temperature_K": TEMPERATURE_K}
    rng = np.random.default_rng(SEED)
    slow = {"pressure_au": 0.0, "tdamp": 100 * units.fs, "pdamp": 1000 * units.fs}
    if ensemble == "nve":
        return VelocityVerlet(atoms, dt)
    if ensemble == "nvt-langevin":
        return LangevinBAOAB(atoms, dt, **heat, T_tau=200 * units.fs, rng=rng)
    if ensemble == "nvt-bussi":
        return Bussi(atoms, dt, **heat, taut=100 * units.fs, rng=rng)
    if ensemble == "nvt-nose-hoover":
        return NoseHooverChainNVT(atoms, dt, **heat, tdamp=100 * units.fs)
    if ensemble == "npt-isotropic":
        return IsotropicMTKNPT(atoms, dt, **heat, **slow)
    return MTKNPT(atoms, dt, **heat, **slow)


def time_run(ensemble: str, options: argparse.Namespace) -> dict[str, float]:
    text = CONFIG.format(
        ensemble=ensemble,
        settings=SETTINGS[ensemble],
        steps=options.steps,
        device=options.device,
        compile=json.dumps(MODES[options.compile]),
        skin=options.skin,
        timestep=options.timestep_fs,
    )
    Path("run.toml").write_text(text)
    outcome = run_from_config(
        "run.toml", overwrite=True, stdout=io.StringIO(), stderr=io.StringIO()
    )
    return outcome.summary.milliseconds


def time_ase(ensemble: str, structure: Structure, options: argparse.Namespace) -> float:
    atoms = structure.to_ase()
    atoms.calc = GIECalculator(
        "model.pt", device=options.device, compile=MODES[options.compile], skin=options.skin
    )
    dynamics = ase_dynamics(ensemble, atoms, options.timestep_fs)
    atoms.get_forces()
    with Trajectory("run.traj", "w", atoms) as trajectory:
        dynamics.attach(trajectory.write, interval=EVERY)
        start = time.perf_counter()
        dynamics.run(options.steps)
        return 1e3 * (time.perf_counter() - start) / options.steps


def measure(ensemble: str, structure: Structure, options: argparse.Namespace) -> dict[str, Any]:
    parts: list[dict[str, float]] = []
    totals: list[float] = []
    for _ in range(options.repeats):
        parts.append(time_run(ensemble, options))
        totals.append(time_ase(ensemble, structure, options))
    overheads = [100 * (sum(p.values()) - p["model"]) / p["model"] for p in parts]
    row = {
        "ensemble": ensemble,
        "n_atoms": len(structure),
        "milliseconds": {n: statistics.median(p[n] for p in parts) for n in parts[0]},
        "overhead_percent": statistics.median(overheads),
        "overhead_percent_range": [min(overheads), max(overheads)],
        "ase_ms": statistics.median(totals),
        "ase_ms_range": [min(totals), max(totals)],
    }
    row["run_ms"] = statistics.median(sum(p.values()) for p in parts)
    print(
        f"{ensemble:>16} {len(structure):>6} atoms  run {row['run_ms']:9.2f} ms/step, overhead "
        f"{row['overhead_percent']:5.2f} %  ASE {row['ase_ms']:9.2f} ms/step"
    )
    return row


def make_structure(n_atoms: int, options: argparse.Namespace) -> Structure:
    make_case(n_atoms, options.timestep_fs, Path("case.npz"), SEED)
    with np.load("case.npz") as case:
        numbers = np.where(case["symbols"] == "O", 8, 1)
        still = Structure(numbers, case["positions"], case["cell"], np.full(3, True))
    velocities = maxwell_boltzmann(torch.tensor(still.masses), TEMPERATURE_K, SEED).numpy()
    atoms = still.numbers, still.positions, still.cell, still.pbc
    return Structure(*atoms, velocities, still.masses)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--grade", choices=GRADES, default="nano")
    parser.add_argument("--atoms", type=int, nargs="+", default=[192])
    parser.add_argument("--ensembles", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--timestep-fs", type=float, default=0.25)
    parser.add_argument("--skin", type=float, default=0.5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", choices=MODES, default="false")
    parser.add_argument("-o", "--output", type=Path, help="JSON file for the results")
    options = parser.parse_args()
    output = options.output.resolve() if options.output else None
    torch.set_num_threads(options.threads)
    load = os.getloadavg()[0]  # of other programs: it tells how quiet the machine is
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_model(options.grade, Path("model.pt"), SEED)
        for n_atoms in options.atoms:
            structure = make_structure(n_atoms, options)
            write_structure("water.extxyz", structure)
            time_run("nve", options)  # compiles kernels
            rows += [measure(name, structure, options) for name in options.ensembles]
        os.chdir("/")
    if output:
        on_cuda = options.device.startswith("cuda")
        record = {
            "grade": options.grade,
            "compile": options.compile,
            "device": torch.cuda.get_device_name() if on_cuda else platform.machine(),
            "load_average": load,
            "threads": options.threads,
            "steps": options.steps,
            "repeats": options.repeats,
            "timestep_fs": options.timestep_fs,
            "versions": {"md_gie": md_gie.__version__, "torch": torch.__version__},
            "rows": rows,
        }
        output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
