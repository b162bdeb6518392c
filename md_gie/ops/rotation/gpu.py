"""Rotations by Triton: which inputs the kernels serve, tile shapes, launches."""

import torch
import triton
from torch import Tensor

from md_gie.ops.launch import TAIL_PROGRAMS, device_of, power_of_2
from md_gie.ops.rotation import triton_kernels, triton_kernels_out
from md_gie.ops.triton_common import ACCUMULATOR


def rotate_in(
    nodes: Tensor, frames: Tensor, radial: Tensor, basis: Tensor | None, src: Tensor, n_focus: int
) -> tuple[Tensor, Tensor]:
    """See :func:`md_gie.ops.rotation.packed.rotate_in`."""
    n_edges, degree = src.shape[0], round(nodes.shape[1] ** 0.5) - 1
    width = nodes.shape[2] // n_focus
    y0 = nodes.new_empty(n_focus, n_edges, degree + 1, width)
    y1 = nodes.new_empty(n_focus, n_edges, 2, degree, width)
    if n_edges:
        options = _options(nodes, degree, width, edges=8, warps=4)
        grid = (triton.cdiv(n_edges, options["BE"]), triton.cdiv(nodes.shape[2], options["BC"]))
        with device_of(nodes):
            triton_kernels.forward[grid](
                nodes.contiguous(), frames.contiguous(), radial.contiguous(),
                radial if basis is None else basis.contiguous(), src, y0, y1, n_edges,
                RANK=0 if basis is None else basis.shape[0], **options,
            )  # fmt: skip
    return y0, y1


def rotate_in_backward(
    g0: Tensor, g1: Tensor, nodes: Tensor, frames: Tensor, radial: Tensor, basis: Tensor | None,
    source_ptr: Tensor, source_order: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients for ``nodes``, ``frames`` and ``radial`` of :func:`rotate_in`."""
    outputs = [
        torch.empty_like(t, memory_format=torch.contiguous_format) for t in (nodes, frames, radial)
    ]
    n_atoms, n_edges = nodes.shape[0], frames.shape[0]
    degree, width = g0.shape[2] - 1, g0.shape[3]
    if n_atoms:
        options = _options(nodes, degree, width, edges=2, warps=1 if degree <= 3 else 2)
        with device_of(nodes):
            triton_kernels.backward[(n_atoms + TAIL_PROGRAMS,)](
                nodes.contiguous(), frames.contiguous(), radial.contiguous(),
                radial if basis is None else basis.contiguous(), g0.contiguous(), g1.contiguous(),
                source_ptr, source_order, *outputs, n_atoms, n_edges,
                RANK=0 if basis is None else basis.shape[0], TAIL=TAIL_PROGRAMS, **options,
            )  # fmt: skip
    return outputs[0], outputs[1], outputs[2]


def rotate_out(y0: Tensor, y1: Tensor, weights: Tensor, frames: Tensor, row_ptr: Tensor) -> Tensor:
    """See :func:`md_gie.ops.rotation.packed.rotate_out`."""
    n_focus, n_edges, degrees, width = y0.shape
    n_rows, hidden = row_ptr.shape[0] - 1, n_focus * width
    out = y0.new_empty(n_rows, degrees * degrees, hidden)
    if n_rows:
        options = _options(y0, degrees - 1, width, hidden=hidden, edges=2, warps=1)
        with device_of(y0):
            triton_kernels_out.forward[(n_rows, triton.cdiv(hidden, options["BC"]))](
                y0.contiguous(), y1.contiguous(), weights.contiguous(), frames.contiguous(),
                row_ptr, out, n_edges, HEADS=weights.shape[1], **options,
            )  # fmt: skip
    return out


def rotate_out_backward(
    grad: Tensor, y0: Tensor, y1: Tensor, weights: Tensor, frames: Tensor, row_ptr: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients for the first four arguments of :func:`rotate_out`."""
    outputs = [torch.empty_like(t, memory_format=torch.contiguous_format)
               for t in (y0, y1, weights, frames)]  # fmt: skip
    n_focus, n_edges, degrees, width = y0.shape
    n_rows, hidden = row_ptr.shape[0] - 1, n_focus * width
    if n_rows:
        options = _options(y0, degrees - 1, width, hidden=hidden, edges=2, warps=1)
        with device_of(y0):
            triton_kernels_out.backward[(n_rows + TAIL_PROGRAMS,)](
                grad.contiguous(), y0.contiguous(), y1.contiguous(), weights.contiguous(),
                frames.contiguous(), row_ptr, *outputs, n_rows, n_edges,
                HEADS=weights.shape[1], TAIL=TAIL_PROGRAMS, **options,
            )  # fmt: skip
    return outputs[0], outputs[1], outputs[2], outputs[3]


def _options(
    like: Tensor, degree: int, width: int, *, edges: int, warps: int, hidden: int | None = None
) -> dict[str, object]:
    hidden = like.shape[2] if hidden is None else hidden
    return {
        "L": degree, "H": hidden, "WIDTH": width, "ACC": ACCUMULATOR[like.dtype], "BE": edges,
        "BC": min(power_of_2(hidden), 64), "num_warps": warps,
    }  # fmt: skip
