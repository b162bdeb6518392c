"""Zonal scatter as a torch operator: schemas, choice of implementation, every derivative."""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from md_gie.ops import launch
from md_gie.ops.zonal_scatter import cpu_kernels, reference
from md_gie.ops.zonal_scatter.layout import MAX_KERNEL_DEGREE, check_arguments, max_degree


def zonal_scatter(
    coupling: Tensor, radial: Tensor, row_ptr: Tensor, *, fused: bool = True
) -> Tensor:
    r"""Sum coupling times radial feature over the edges of each destination.

    .. math:: y_{n,(l,m),c} = \sum_{e \to n} B_{e,(l,m)}\, R_{e,l,c}

    The sum goes straight into the node layout of packed rows ``l² + l + m``; no array with an
    edge, a row and a channel axis exists in the compiled implementations. Sums follow the order
    of the edges, without atomics: the same input gives the same bits. The operator is bilinear and
    differentiable to any order.

    Parameters
    ----------
    coupling : (E, D - 1) or (E, D) floating, D = (L+1)²
        Zonal coupling of each edge; with D columns the first belongs to the scalar row, without
        it that row is zero.
    radial : (E, L, C) or (E, 1, C), same dtype
        Radial features of each degree that ``coupling`` has (L + 1 of them if the scalar row is
        among them), or one shared by all degrees.
    row_ptr : (N+1,) int32 or int64
        Edges of destination ``i`` are ``row_ptr[i]:row_ptr[i+1]``; those from ``row_ptr[N]`` on are
        padding, which adds nothing and has zero gradients.
    fused : bool
        Take the compiled kernels (numba on a CPU, Triton on a GPU) where they serve the input;
        False keeps to plain PyTorch.

    Returns
    -------
    (N, D, C) floating
        Node features.

    Raises
    ------
    ValueError
        If a shape, dtype or device does not fit; the message names the argument.

    References
    ----------
    Zonal harmonics as the coupling of an edge to its own direction: Passaro and Zitnick, Reducing
    SO(3) Convolutions to SO(2), ICML 2023.
    """
    check_arguments(coupling, radial, row_ptr)
    out: Tensor = _zonal_scatter(coupling, radial, row_ptr, fused)
    return out


@torch.library.custom_op("md_gie::zonal_scatter", mutates_args=())
def _zonal_scatter(coupling: Tensor, radial: Tensor, row_ptr: Tensor, fused: bool = True) -> Tensor:
    out: Tensor = _implementation(coupling, fused).zonal_scatter(coupling, radial, row_ptr)
    return out


@torch.library.custom_op("md_gie::zonal_scatter_backward", mutates_args=())
def _zonal_scatter_backward(
    grad: Tensor, coupling: Tensor, radial: Tensor, row_ptr: Tensor, fused: bool = True
) -> tuple[Tensor, Tensor]:
    out: tuple[Tensor, Tensor] = _implementation(coupling, fused).zonal_scatter_backward(
        grad, coupling, radial, row_ptr
    )
    return out


def _implementation(coupling: Tensor, fused: bool) -> ModuleType:
    """Choose before anything compiles: what the kernels do not serve goes to plain PyTorch."""
    if not fused:
        return reference
    if launch.is_served(coupling) and max_degree(coupling.shape[1]) <= MAX_KERNEL_DEGREE:
        from md_gie.ops.zonal_scatter import gpu

        return gpu
    # The compiled CPU kernels know the two dtypes of NumPy that a model runs in.
    compiled = coupling.device.type == "cpu" and coupling.dtype in (torch.float32, torch.float64)
    return cpu_kernels if compiled else reference


@_zonal_scatter.register_fake
def _(coupling: Tensor, radial: Tensor, row_ptr: Tensor, fused: bool = True) -> Tensor:
    rows = coupling.shape[1]
    d = rows if round(rows**0.5) ** 2 == rows else rows + 1
    return radial.new_empty(row_ptr.shape[0] - 1, d, radial.shape[2])


@_zonal_scatter_backward.register_fake
def _(
    grad: Tensor, coupling: Tensor, radial: Tensor, row_ptr: Tensor, fused: bool = True
) -> tuple[Tensor, Tensor]:
    return coupling.new_empty(coupling.shape), radial.new_empty(radial.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *tensors, ctx.fused = inputs
    ctx.save_for_backward(*tensors)


def _first_order(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return *_zonal_scatter_backward(grad, *ctx.saved_tensors, ctx.fused), None, None


def _second_order(ctx: Any, u: Tensor, v: Tensor) -> tuple[Tensor | None, ...]:
    # The op is bilinear, so its second derivative is made of the same two ops.
    grad, coupling, radial, row_ptr = ctx.saved_tensors
    left = _zonal_scatter(u, radial, row_ptr, ctx.fused)
    right = _zonal_scatter(coupling, v, row_ptr, ctx.fused)
    return left + right, *_zonal_scatter_backward(grad, u, v, row_ptr, ctx.fused), None, None


_zonal_scatter.register_autograd(_first_order, setup_context=_save)
_zonal_scatter_backward.register_autograd(_second_order, setup_context=_save)
