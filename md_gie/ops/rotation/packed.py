"""Fused rotations as torch operators: ``|m| <= 1``, packed frames, first derivatives only.

Edges from ``row_ptr[N]`` (and ``source_ptr[N]``) on are padding: they add nothing and have zero
gradients. Array layouts: ``y0`` (F, E, L + 1, Cf) holds the rows m = 0, ``y1`` (F, E, 2, L, Cf) the
rows m = -1, +1 of the degrees 1..L; ``frames`` (E, 3 (D - 1)) the rows of each degree side by side.
"""

from typing import Any

import torch
from torch import Tensor

from md_gie.ops import launch

_PACKAGE = "md_gie.ops.rotation"


@torch.library.custom_op("md_gie::rotate_in", mutates_args=())
def rotate_in(
    nodes: Tensor,
    frames: Tensor,
    radial: Tensor,
    basis: Tensor | None,
    src: Tensor,
    source_ptr: Tensor,
    source_order: Tensor,
    n_focus: int,
) -> tuple[Tensor, Tensor]:
    """Gather nodes (N, D, F Cf) into edge frames and modulate them: ``y0`` and ``y1``."""
    out: tuple[Tensor, Tensor] = launch.implementation(_PACKAGE, nodes).rotate_in(
        nodes, frames, radial, basis, src, n_focus
    )
    return out


@torch.library.custom_op("md_gie::rotate_in_backward", mutates_args=())
def _rotate_in_backward(
    g0: Tensor,
    g1: Tensor,
    nodes: Tensor,
    frames: Tensor,
    radial: Tensor,
    basis: Tensor | None,
    source_ptr: Tensor,
    source_order: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    out: tuple[Tensor, Tensor, Tensor] = launch.implementation(_PACKAGE, nodes).rotate_in_backward(
        g0, g1, nodes, frames, radial, basis, source_ptr, source_order
    )
    return out


@torch.library.custom_op("md_gie::rotate_out", mutates_args=())
def rotate_out(y0: Tensor, y1: Tensor, weights: Tensor, frames: Tensor, row_ptr: Tensor) -> Tensor:
    """Rotate edge features back, weight them (E, F A) and sum over destinations: (N, D, F Cf)."""
    out: Tensor = launch.implementation(_PACKAGE, y0).rotate_out(y0, y1, weights, frames, row_ptr)
    return out


@torch.library.custom_op("md_gie::rotate_out_backward", mutates_args=())
def _rotate_out_backward(
    grad: Tensor, y0: Tensor, y1: Tensor, weights: Tensor, frames: Tensor, row_ptr: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    out: tuple[Tensor, Tensor, Tensor, Tensor] = launch.implementation(
        _PACKAGE, y0
    ).rotate_out_backward(grad, y0, y1, weights, frames, row_ptr)
    return out


@rotate_in.register_fake
def _(
    nodes: Tensor, frames: Tensor, radial: Tensor, basis: Tensor | None, src: Tensor,
    source_ptr: Tensor, source_order: Tensor, n_focus: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    degree, width = round(nodes.shape[1] ** 0.5) - 1, nodes.shape[2] // n_focus
    y0 = nodes.new_empty(n_focus, src.shape[0], degree + 1, width)
    return y0, nodes.new_empty(n_focus, src.shape[0], 2, degree, width)


@_rotate_in_backward.register_fake
def _(
    g0: Tensor, g1: Tensor, nodes: Tensor, frames: Tensor, radial: Tensor, basis: Tensor | None,
    source_ptr: Tensor, source_order: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return _like(nodes), _like(frames), _like(radial)


@rotate_out.register_fake
def _(y0: Tensor, y1: Tensor, weights: Tensor, frames: Tensor, row_ptr: Tensor) -> Tensor:
    n_focus, _, degrees, width = y0.shape
    return y0.new_empty(row_ptr.shape[0] - 1, degrees * degrees, n_focus * width)


@_rotate_out_backward.register_fake
def _(
    grad: Tensor, y0: Tensor, y1: Tensor, weights: Tensor, frames: Tensor, row_ptr: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _like(y0), _like(y1), _like(weights), _like(frames)


def _like(tensor: Tensor) -> Tensor:
    return tensor.new_empty(tensor.shape)


def _save_in(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    nodes, frames, radial, basis, _, source_ptr, source_order, _ = inputs
    ctx.save_for_backward(nodes, frames, radial, basis, source_ptr, source_order)


def _backward_in(ctx: Any, g0: Tensor, g1: Tensor) -> tuple[Tensor | None, ...]:
    return *_rotate_in_backward(g0, g1, *ctx.saved_tensors), None, None, None, None, None


def _save_out(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _backward_out(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return *_rotate_out_backward(grad, *ctx.saved_tensors), None


rotate_in.register_autograd(_backward_in, setup_context=_save_in)
rotate_out.register_autograd(_backward_out, setup_context=_save_out)
