"""One side of ``bench_md.py``: evaluates frames on request and says how long each took.

Started as ``python bench_md_worker.py md_gie|deepmd CASE.npz MODEL.pt OPTIONS``, with OPTIONS as
JSON. Reads commands from standard input, a line each, and answers with a line of JSON:

    step K      evaluate frame K: {"ms": ..., "neighbor_ms": ...}
    save FILE   write energy, forces and virial of the last frame: {}
    memory      {"baseline_MB": ..., "peak_MB": ...}

DeePMD-kit runs in its own environment, where md_gie need not be installed.
"""

import contextlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch


class Result(NamedTuple):
    energy: float
    forces: np.ndarray
    virial: np.ndarray
    neighbor_ms: float | None


Evaluate = Callable[[np.ndarray], Result]


def md_gie_evaluator(case: Any, model: str, options: dict[str, Any]) -> Evaluate:
    from md_gie import NeighborCache, load_potential

    engine = load_potential(model, device=options["device"])
    cache = NeighborCache(engine.cutoff, options["skin"], device=engine.device)
    types = torch.tensor(case["types"], dtype=torch.int64, device=engine.device)
    cell, pbc = case["cell"], np.full(3, True)
    on_cpu = engine.device.type == "cpu"  # elsewhere the list may still be in the making

    def evaluate(positions: np.ndarray) -> Result:
        start = time.perf_counter()
        edges = cache.update(torch.as_tensor(positions, device=engine.device), cell, pbc)
        listed = time.perf_counter()
        result = engine.evaluate(types, edges)
        forces = result.forces.cpu().numpy()
        neighbor_ms = 1e3 * (listed - start) if on_cpu else None
        return Result(result.energy.item(), forces, result.virial.cpu().numpy(), neighbor_ms)

    return evaluate


def deepmd_evaluator(case: Any, model: str, _options: dict[str, Any]) -> Evaluate:
    from deepmd.infer import DeepPot

    potential = DeepPot(model)
    known = potential.get_type_map()
    types = [known.index(str(symbol)) for symbol in case["symbols"]]
    box = case["cell"].reshape(1, 9)

    def evaluate(positions: np.ndarray) -> Result:
        energy, forces, virial = potential.eval(positions.reshape(1, -1), box, types)[:3]
        return Result(float(energy.item()), forces[0], virial[0].reshape(3, 3), None)

    return evaluate


EVALUATORS = {"md_gie": md_gie_evaluator, "deepmd": deepmd_evaluator}


def high_water_MB() -> float:
    """Largest resident set of this process since its start."""
    status = Path("/proc/self/status")
    if status.exists():
        # getrusage keeps the parent's peak across a fork; this one starts anew with the program.
        line = next(text for text in status.read_text().splitlines() if text.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def memory(baseline: float, on_cuda: bool) -> dict[str, float]:
    peak = torch.cuda.max_memory_allocated() / 1024**2 if on_cuda else high_water_MB()
    return {"baseline_MB": baseline, "peak_MB": peak}


def serve(side: str, case_file: str, model: str, options: dict[str, Any], answer: Any) -> None:
    if options["memory_GB"]:
        limit = int(options["memory_GB"] * 1024**3)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    torch.set_num_threads(options["threads"])
    on_cuda = options["device"].startswith("cuda")
    case = np.load(case_file)
    evaluate = EVALUATORS[side](case, model, options)
    baseline = 0.0 if on_cuda else high_water_MB()
    last: Result | None = None
    reply(answer, {"ready": True})
    for line in sys.stdin:
        command, *arguments = line.split(maxsplit=1)
        if command == "step":
            positions = case["positions"] + int(arguments[0]) * case["moves"]
            start = time.perf_counter()
            last = evaluate(positions)
            elapsed = 1e3 * (time.perf_counter() - start)
            reply(answer, {"ms": elapsed, "neighbor_ms": last.neighbor_ms})
        elif command == "save" and last is not None:
            np.savez(
                arguments[0].strip(), energy=last.energy, forces=last.forces, virial=last.virial
            )
            reply(answer, {})
        elif command == "memory":
            reply(answer, memory(baseline, on_cuda))


def reply(answer: Any, content: dict[str, Any]) -> None:
    answer.write(json.dumps(content) + "\n")
    answer.flush()


def main() -> None:
    # Libraries print to standard output; the answers get a channel of their own.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    side, case_file, model, options = sys.argv[1:]
    try:
        with contextlib.redirect_stdout(sys.stderr):
            serve(side, case_file, model, json.loads(options), answer)
    except (MemoryError, RuntimeError) as error:
        # PyTorch reports that memory has run out as a RuntimeError.
        reply(answer, {"error": str(error).strip().split("\n")[0][:200]})


if __name__ == "__main__":
    main()
