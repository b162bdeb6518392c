"""Trial of a compiled step in a process of its own, which may crash without harm."""

import signal
import subprocess
import sys
from pathlib import Path

import torch
from torch import Tensor

from md_gie.engine.step import Step
from md_gie.errors import CompilationError
from md_gie.neighbors import NeighborCache
from md_gie.ops import Edges

_CLOSE = 1e-2
"""Of the largest force: what TF32 may differ; a wrong step is wrong by more."""
_CHILD = "import sys; from md_gie.engine.trial import run; run(sys.argv[1], sys.argv[2])"


def try_out(compiled: Path, step: Step, device: torch.device, cutoff: float) -> None:
    """Load a compiled step in a fresh process and compare its forces with the plain step's.

    Parameters
    ----------
    compiled : Path
        The step; files of the trial go beside it.
    step : Step
        What was compiled.
    device : torch.device
    cutoff : float, Å

    Raises
    ------
    CompilationError
        If the process crashes, fails or finds other forces.
    """
    types, edges = _cluster(device, cutoff)
    trial = compiled.with_name("trial.pt")
    torch.save((types, tuple(edges), step(types, edges).forces), trial)
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(compiled), str(trial)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return
    if done.returncode < 0:
        what = f"is ended by {signal.Signals(-done.returncode).name}"
    else:
        what = f"fails: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
    raise CompilationError(
        f"the step was compiled, but a fresh process that loads it {what}; PyTorch "
        f"{torch.__version__} cannot serve this package on {device}: take another PyTorch, or do "
        "without a package (compile = true, 'graph' or 'capture')"
    )


def run(compiled: str, trial: str) -> None:
    """Compare in the fresh process; the plain step's results come from a file."""
    types, edges, expected = torch.load(trial, weights_only=True)
    with torch.no_grad():
        forces: Tensor = torch._inductor.aoti_load_package(compiled)(types, *edges)[2]
    error = float((forces - expected).abs().max() / expected.abs().max())
    if not error <= _CLOSE:
        sys.exit(f"its forces differ by {error:.1e} of the largest")


def _cluster(device: torch.device, cutoff: float) -> tuple[Tensor, Edges]:
    """Eight atoms of the first type at the corners of a box, all within the cutoff."""
    sides = torch.tensor([0.31, 0.37, 0.41], dtype=torch.float64) * cutoff
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * 3)
    cache = NeighborCache(cutoff, 0.0, device=device)
    edges = cache.update(corners * sides, torch.eye(3), [False] * 3)
    return torch.zeros(8, dtype=torch.int64, device=device), edges
