"""Harmonic scatter: the zonal scatter that evaluates its couplings from the edge vectors."""

from typing import Any

import torch
from torch import Tensor

from md_gie.ops import launch
from md_gie.ops.zonal_scatter.harmonics import real_harmonics
from md_gie.ops.zonal_scatter.layout import MAX_KERNEL_DEGREE, check_arguments
from md_gie.ops.zonal_scatter.op import zonal_scatter


def harmonic_scatter(
    vectors: Tensor, radial: Tensor, row_ptr: Tensor, degree: int, epsilon: float = 0.0
) -> Tensor:
    r"""Sum real harmonics times radial features over the edges of each destination.

    .. math:: y_{n,(l,m),c} = \sum_{e \to n} B_{lm}(\hat v_e)\, R_{e,l,c},
        \qquad \hat v = v / \sqrt{v^2 + \varepsilon^2}

    The same as :func:`zonal_scatter` with the harmonics as coupling, which on a GPU exist only in
    registers. Differentiable twice; the second derivative composes PyTorch operators.

    Parameters
    ----------
    vectors : (E, 3) floating
        Edge vectors, of any unit; not zero unless ``epsilon`` is positive.
    radial : (E, L, C) or (E, 1, C), same dtype
        Radial features of the degrees 1..L, or one shared by all.
    row_ptr : (N+1,) int32 or int64
        As for :func:`zonal_scatter`.
    degree : int
        Largest degree L, at least 1.
    epsilon : float
        Added to the length in quadrature.

    Returns
    -------
    (N, (L+1)², C) floating
        Node features; the scalar row is zero.

    Raises
    ------
    ValueError
        If a shape, dtype or device does not fit.

    References
    ----------
    Basis and normalisation: :func:`md_gie.ops.zonal_scatter.harmonics.real_harmonics`.
    """
    if degree < 1 or vectors.dim() != 2 or vectors.shape[1] != 3:
        raise ValueError(
            f"`vectors` must be (E, 3) and `degree` at least 1, got {tuple(vectors.shape)} and "
            f"{degree}"
        )
    check_arguments(vectors, radial, row_ptr, degree=degree)
    if not (launch.is_served(vectors) and degree <= MAX_KERNEL_DEGREE):
        return _composed(vectors, radial, row_ptr, degree, epsilon)
    out: Tensor = _harmonic_scatter(vectors, radial, row_ptr, degree, epsilon)
    return out


def _composed(
    vectors: Tensor, radial: Tensor, row_ptr: Tensor, degree: int, epsilon: float
) -> Tensor:
    return zonal_scatter(real_harmonics(vectors, degree, epsilon), radial, row_ptr)


@torch.library.custom_op("md_gie::harmonic_scatter", mutates_args=())
def _harmonic_scatter(
    vectors: Tensor, radial: Tensor, row_ptr: Tensor, degree: int, epsilon: float
) -> Tensor:
    from md_gie.ops.zonal_scatter import gpu

    return gpu.harmonic_scatter(vectors, radial, row_ptr, degree, epsilon)


@torch.library.custom_op("md_gie::harmonic_scatter_backward", mutates_args=())
def _harmonic_scatter_backward(
    grad: Tensor, vectors: Tensor, radial: Tensor, row_ptr: Tensor, degree: int, epsilon: float
) -> tuple[Tensor, Tensor]:
    from md_gie.ops.zonal_scatter import gpu

    return gpu.harmonic_scatter_backward(grad, vectors, radial, row_ptr, degree, epsilon)


@_harmonic_scatter.register_fake
def _(vectors: Tensor, radial: Tensor, row_ptr: Tensor, degree: int, epsilon: float) -> Tensor:
    return radial.new_empty(row_ptr.shape[0] - 1, (degree + 1) ** 2, radial.shape[2])


@_harmonic_scatter_backward.register_fake
def _(
    grad: Tensor, vectors: Tensor, radial: Tensor, row_ptr: Tensor, degree: int, epsilon: float
) -> tuple[Tensor, Tensor]:
    return vectors.new_empty(vectors.shape), radial.new_empty(radial.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *tensors, ctx.degree, ctx.epsilon = inputs
    ctx.save_for_backward(*tensors)


def _first_order(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    gradients = _harmonic_scatter_backward(grad, *ctx.saved_tensors, ctx.degree, ctx.epsilon)
    return *gradients, None, None, None


def _second_order(ctx: Any, u: Tensor, v: Tensor) -> tuple[Tensor | None, ...]:
    grad, vectors, radial, row_ptr = ctx.saved_tensors
    with torch.enable_grad():
        leaves = [tensor.detach().requires_grad_() for tensor in (grad, vectors, radial)]
        out = _composed(leaves[1], leaves[2], row_ptr, ctx.degree, ctx.epsilon)
        first = torch.autograd.grad(out, leaves[1:], leaves[0], create_graph=True)
        second = torch.autograd.grad(first, leaves, (u, v))
    return *second, None, None, None


_harmonic_scatter.register_autograd(_first_order, setup_context=_save)
_harmonic_scatter_backward.register_autograd(_second_order, setup_context=_save)
