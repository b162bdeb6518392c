"""Time a force step of DPA4 models on water, beside DeePMD-kit on the same frames.

    python scripts/bench_md.py --deepmd-python PATH/TO/PYTHON -o scripts/results/md_cpu.json

A step is neighbors, energy, forces and virial of the next frame of a flight: atoms start as liquid
water and move on with thermal velocities, so that the neighbor list is rebuilt as often as in a
run. Models have the published shapes and random parameters, and run in float32. Each
implementation runs in a process of its own for each case; steps of the two alternate. Without
``--deepmd-python`` only md_gie runs.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench_md_cases import GRADES, make_case, make_model

import md_gie

WORKER = Path(__file__).with_name("bench_md_worker.py")
RESULTS = Path(__file__).parent / "results"
AGREEMENT = 1e-4  # of the largest component; float32 sums differ by about 1e-6


class Failure(Exception):
    """A worker could not do what was asked of it, mostly for lack of memory."""


class Worker:
    """A process that evaluates frames with one implementation."""

    def __init__(self, side: str, python: str, case: Path, model: Path, options: Any) -> None:
        settings = {key: getattr(options, key) for key in ("device", "skin", "threads")}
        settings["memory_GB"] = options.memory_gb if options.device == "cpu" else 0.0
        command = [python, str(WORKER), side, str(case), str(model), json.dumps(settings)]
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment(side, options),
        )
        self.name = side
        self._read()

    def ask(self, command: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._log.close()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": self._last_words()}
        if "error" in answer:
            raise Failure(f"{self.name}: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        status = self._process.wait()
        self._log.seek(0)
        lines = self._log.read().strip().splitlines()
        return f"exit status {status}, {lines[-1] if lines else 'without a message'}"


def environment(side: str, options: argparse.Namespace) -> dict[str, str]:
    threads = str(options.threads)
    settings = {"OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads}
    if side == "deepmd":
        settings |= {
            "DEVICE": options.device,
            "DP_INTRA_OP_PARALLELISM_THREADS": threads,
            "DP_INTER_OP_PARALLELISM_THREADS": "1",
        }
        settings |= dict(item.split("=", 1) for item in options.deepmd_env)
    return {**os.environ, **settings}


def measure(grade: str, n_atoms: int, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    case, model = folder / "case.npz", folder / "model.pt"
    make_model(grade, model, options.seed)
    n_atoms = make_case(n_atoms, options.timestep_fs, case, options.seed)
    row: dict[str, Any] = {"grade": grade, "n_atoms": n_atoms}
    sides = {"md_gie": sys.executable}
    if options.deepmd_python:
        sides["deepmd"] = options.deepmd_python
    workers: list[Worker] = []
    try:
        for side, python in sides.items():
            try:
                workers.append(Worker(side, python, case, model, options))
            except Failure as failure:
                row[side] = {"failed": str(failure)}
        times_of(workers, options, row)
        row["largest_difference"] = disagreement(workers, row, folder)
    finally:
        for worker in workers:
            worker.close()
    if all("ms" in row[side] for side in ("md_gie", "deepmd") if side in row) and "deepmd" in row:
        row["ratio"] = row["deepmd"]["ms"] / row["md_gie"]["ms"]
    return row


def times_of(workers: list[Worker], options: argparse.Namespace, row: dict[str, Any]) -> None:
    """Let the workers take turns; a worker that fails drops out with its reason in ``row``."""
    steps = options.warmup + options.repeats
    samples: dict[str, list[dict[str, Any]]] = {worker.name: [] for worker in workers}
    for step in range(steps):
        for worker in workers:
            if worker.name in row:
                continue
            try:
                answer = worker.ask(f"step {step}")
            except Failure as failure:
                row[worker.name] = {"failed": str(failure)}
                continue
            if step >= options.warmup:
                samples[worker.name].append(answer)
    for worker in workers:
        if worker.name not in row:
            row[worker.name] = summary(samples[worker.name], row["n_atoms"])
            row[worker.name] |= worker.ask("memory")


def summary(samples: list[dict[str, Any]], n_atoms: int) -> dict[str, Any]:
    times = [sample["ms"] for sample in samples]
    median = statistics.median(times)
    out = {
        "ms": median,
        "ms_mean": statistics.fmean(times),
        "ms_min": min(times),
        "ms_all": times,
        "us_per_atom": 1e3 * median / n_atoms,
    }
    if samples[0]["neighbor_ms"] is not None:
        out["neighbor_ms_all"] = [sample["neighbor_ms"] for sample in samples]
    return out


def disagreement(
    workers: list[Worker], row: dict[str, Any], folder: Path
) -> dict[str, float] | None:
    """Relative differences at the last frame, or None where there is nothing to compare.

    Raises
    ------
    SystemExit
        If the two implementations do not agree: a time for wrong numbers means nothing.
    """
    done = [worker for worker in workers if "failed" not in row[worker.name]]
    if len(done) < 2:
        return None
    values = []
    for worker in done:
        file = folder / f"{worker.name}.npz"
        worker.ask(f"save {file}")
        values.append(np.load(file))
    got, expected = values
    difference = {
        name: float(np.abs(got[name] - expected[name]).max() / np.abs(expected[name]).max())
        for name in ("energy", "forces", "virial")
    }
    if not all(value <= AGREEMENT for value in difference.values()):
        raise SystemExit(
            f"{row['grade']}, {row['n_atoms']} atoms: the two implementations differ by "
            f"{difference} of the largest component, more than {AGREEMENT:g}; no times are given"
        )
    return difference


def machine(options: argparse.Namespace) -> dict[str, Any]:
    cpuinfo = Path("/proc/cpuinfo")
    names = [
        line.split(":", 1)[1].strip()
        for line in (cpuinfo.read_text().splitlines() if cpuinfo.exists() else [])
        if line.startswith("model name")
    ]
    found = {
        "cpu": names[0] if names else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": options.threads,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "md_gie": md_gie.__version__,
        "commit": commit(),
        "deepmd": peer_versions(options.deepmd_python) if options.deepmd_python else None,
    }
    if options.device.startswith("cuda"):
        found["gpu"] = torch.cuda.get_device_name(options.device)
    return found


def commit() -> str:
    def git(*words: str) -> str:
        here = Path(__file__).parent
        out = subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=False)
        return out.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    return (git("rev-parse", "HEAD") or "unknown") + (" with changes" if changed else "")


def peer_versions(python: str) -> dict[str, str]:
    code = (
        "import json; from importlib.metadata import version; "
        "print(json.dumps({n: version(n) for n in ('deepmd-kit', 'torch', 'numpy')}))"
    )
    out = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    versions: dict[str, str] = json.loads(out)
    return versions


def describe(row: dict[str, Any]) -> str:
    text = f"{row['grade']:5s}{row['n_atoms']:6d} atoms"
    for side in ("md_gie", "deepmd"):
        if side not in row:
            continue
        entry = row[side]
        if "failed" in entry:
            text += f" | {entry['failed']}"
            continue
        text += (
            f" | {side} {entry['ms']:9.1f} ms/step {entry['us_per_atom']:8.1f} µs/atom/step "
            f"{entry['peak_MB']:7.0f} MB"
        )
    return text + (f" | {row['ratio']:.2f} times" if "ratio" in row else "")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--grades", nargs="+", choices=GRADES, default=["nano", "mini", "neo"])
    parser.add_argument("--atoms", type=int, nargs="+", default=[192, 1536, 4096], help="about")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda for both sides")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--skin", type=float, default=0.5, help="Å, of md_gie's list")
    parser.add_argument("--timestep-fs", type=float, default=0.5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--memory-gb", type=float, default=0.0, help="limit of either side; 0: none"
    )
    parser.add_argument("--deepmd-python", metavar="PATH", help="Python that has DeePMD-kit")
    parser.add_argument(
        "--deepmd-env", metavar="NAME=VALUE", nargs="+", default=[], help="its extra environment"
    )
    parser.add_argument("-o", "--output", type=Path, help="JSON; default scripts/results")
    return parser.parse_args()


def main() -> None:
    options = parse()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for grade in options.grades:
            for n_atoms in options.atoms:
                rows.append(measure(grade, n_atoms, options, Path(name)))
                print(describe(rows[-1]), flush=True)
    hidden = ("output", "deepmd_python")
    settings = {key: value for key, value in vars(options).items() if key not in hidden}
    output = options.output or RESULTS / f"md_{options.device.split(':')[0]}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    report = {"machine": machine(options), "settings": settings, "rows": rows}
    output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
