"""Time the zonal scatter on a GPU against the least time that its bytes need.

    python scripts/bench_ops.py -o scripts/results/ops_h200.json

The floor is what an operator must read and write once, over the bandwidth of a device copy measured
in the same run. Edges are those of rattled diamond within 6 Å. Beside the operator run the same
sums composed of PyTorch operators, eager and compiled. Times are medians of CUDA graph replays.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from bench_machine import gpu
from bench_structures import diamond
from torch import Tensor

from md_gie import NeighborCache
from md_gie.ops import harmonic_scatter, zonal_scatter

CUTOFF = 6.0
EPSILON = 1e-7
CASES = [(4096, 3, 32), (32768, 3, 32)] + [
    (4096, degree, channels) for degree, channels in ((1, 32), (2, 32), (4, 32), (5, 32), (3, 64))
]


def milliseconds(work: Callable[[], Any], repeats: int = 20, inner: int = 5) -> float:
    """Time of one call inside a replayed graph, so that launches from Python do not count."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(inner):
            work()
    samples = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        samples.append(start.elapsed_time(end) / inner)
    return statistics.median(samples)


def copy_bandwidth() -> float:
    """Bytes moved in a millisecond by a copy of 2 GiB, read and written."""
    source = torch.empty(2**29, device="cuda")
    target = torch.empty_like(source)
    # By a kernel: the copy engine behind ``copy_`` is slower.
    return 2 * source.nbytes / milliseconds(lambda: torch.mul(source, 1.0, out=target))


def composition(coupling: Tensor, radial: Tensor, dst: Tensor, n_rows: int) -> Tensor:
    """The same sums of PyTorch operators, with the message surface."""
    degree = round((coupling.shape[1] + 1) ** 0.5) - 1
    degrees = torch.arange(1, degree + 1, device=dst.device)
    slots = (degrees - 1).repeat_interleave(2 * degrees + 1)
    messages = coupling[:, :, None] * radial[:, slots]
    out = messages.new_zeros(n_rows, *messages.shape[1:]).index_add(0, dst, messages)
    return F.pad(out, (0, 0, 1, 0))


def through(function: Callable[..., Tensor], grad: Tensor, *inputs: Tensor) -> Callable[[], Any]:
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    return lambda: torch.autograd.grad(function(*leaves), leaves, grad)


def measure(n_atoms: int, degree: int, channels: int, bandwidth: float) -> dict[str, Any]:
    atoms = diamond(n_atoms)
    edges = NeighborCache(CUTOFF, 0.0).update(atoms.positions, atoms.cell.array, atoms.pbc)
    row_ptr, dst = edges.row_ptr.cuda(), edges.dst.cuda()
    vectors, n_edges = edges.vectors.float().cuda(), edges.n_edges
    rows = (degree + 1) ** 2
    coupling = torch.randn(n_edges, rows - 1, device="cuda")
    radial = torch.randn(n_edges, degree, channels, device="cuda")
    grad = torch.randn(n_atoms, rows, channels, device="cuda")
    node_bytes, radial_bytes = grad.nbytes + row_ptr.nbytes, radial.nbytes
    backward = torch.ops.md_gie.zonal_scatter_backward
    row: dict[str, Any] = {
        "n_atoms": n_atoms, "n_edges": n_edges, "degree": degree, "channels": channels,
        "forward_floor_ms": (coupling.nbytes + radial_bytes + node_bytes) / bandwidth,
        "backward_floor_ms": (2 * (coupling.nbytes + radial_bytes) + node_bytes) / bandwidth,
        "forward_ms": milliseconds(lambda: zonal_scatter(coupling, radial, row_ptr)),
        "backward_ms": milliseconds(lambda: backward(grad, coupling, radial, row_ptr)),
    }  # fmt: skip
    row["extra_MB"] = extra_memory(coupling, radial, row_ptr, grad)

    def from_vectors(vectors: Tensor, radial: Tensor) -> Tensor:
        return harmonic_scatter(vectors, radial, row_ptr, degree, EPSILON)

    harmonic_backward = torch.ops.md_gie.harmonic_scatter_backward
    row |= {
        "harmonic_forward_floor_ms": (vectors.nbytes + radial_bytes + node_bytes) / bandwidth,
        "harmonic_backward_floor_ms": (2 * (vectors.nbytes + radial_bytes) + node_bytes)
        / bandwidth,
        "harmonic_forward_ms": milliseconds(lambda: from_vectors(vectors, radial)),
        "harmonic_backward_ms": milliseconds(
            lambda: harmonic_backward(grad, vectors, radial, row_ptr, degree, EPSILON)
        ),
    }
    for name in ("forward", "backward", "harmonic_forward", "harmonic_backward"):
        row[f"{name}_over_floor"] = row[f"{name}_ms"] / row[f"{name}_floor_ms"]
    if n_atoms <= 4096 and (degree, channels) == (3, 32):

        def composed(coupling: Tensor, radial: Tensor) -> Tensor:
            return composition(coupling, radial, dst, n_atoms)

        # Eager composition cannot be captured: repeat_interleave asks the device for its size.
        row["eager_composition_ms"] = wall(through(composed, grad, coupling, radial))
        compiled = torch.compile(composed)
        row["compiled_composition_ms"] = wall(through(compiled, grad, coupling, radial))
        row["operator_ms"] = wall(
            through(lambda a, b: zonal_scatter(a, b, row_ptr), grad, coupling, radial)
        )
    return row


def extra_memory(coupling: Tensor, radial: Tensor, row_ptr: Tensor, grad: Tensor) -> float:
    """Peak of forward and backward beyond the gradients themselves, MB."""
    work = through(lambda a, b: zonal_scatter(a, b, row_ptr), grad, coupling, radial)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    gradients = work()
    own = sum(tensor.nbytes for tensor in gradients)
    return (torch.cuda.max_memory_allocated() - before - own) / 1e6


def wall(work: Callable[[], Any], repeats: int = 20) -> float:
    for _ in range(3):
        work()
    samples = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        samples.append(start.elapsed_time(end))
    return statistics.median(samples)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    torch.manual_seed(1)
    bandwidth = copy_bandwidth()
    rows = []
    for n_atoms, degree, channels in CASES:
        row = measure(n_atoms, degree, channels, bandwidth)
        rows.append(row)
        print(
            f"{n_atoms:6d} atoms L {degree} C {channels:3d} | "
            + " | ".join(
                f"{name} {row[f'{name}_ms']:.4f} ms, {row[f'{name}_over_floor']:.2f} x floor"
                for name in ("forward", "backward", "harmonic_forward", "harmonic_backward")
            ),
            flush=True,
        )
        torch.cuda.empty_cache()
    result = {"machine": gpu(), "copy_TB_s": bandwidth / 1e9, "rows": rows}
    options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
