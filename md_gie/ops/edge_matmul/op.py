"""Edge matmul as a torch operator: tensor cores at float32 accuracy where Triton serves."""

from typing import Any

import torch
from torch import Tensor

from md_gie.ops import launch


def edge_matmul(x: Tensor, matrix: Tensor, *, fused: bool) -> Tensor:
    """Multiply the features of every edge by the matrix of their stream.

    Parameters
    ----------
    x : (F, E, K) floating
        Features; rows of K may be apart.
    matrix : (F, K, M), same dtype
        One matrix for each stream.
    fused : bool
        Allow the Triton kernel, which has a first derivative only and none for ``matrix``. It
        splits each float32 factor into two TF32 numbers and adds three products, with errors of
        3e-7 of the largest element; TF32 alone, with errors of 1e-3, is taken where
        ``torch.backends.cuda.matmul.allow_tf32`` is set.

    Returns
    -------
    (F, E, M) floating

    References
    ----------
    Products of split factors on tensor cores: Ootomo and Yokota, Recovering Single Precision
    Accuracy from Tensor Cores, Int. J. High Perform. Comput. Appl. 36, 475 (2022),
    doi:10.1177/10943420221090256.
    """
    if fused and launch.is_served(x) and x.dtype == torch.float32:
        out: Tensor = _edge_matmul(x, matrix, torch.backends.cuda.matmul.allow_tf32)
        return out
    return x @ matrix


@torch.library.custom_op("md_gie::edge_matmul", mutates_args=())
def _edge_matmul(x: Tensor, matrix: Tensor, tf32: bool) -> Tensor:
    from md_gie.ops.edge_matmul import gpu

    return gpu.edge_matmul(x, matrix, tf32)


@_edge_matmul.register_fake
def _(x: Tensor, matrix: Tensor, tf32: bool) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[1], matrix.shape[2])


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, matrix, ctx.tf32 = inputs
    ctx.save_for_backward(matrix)


def _first_order(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (matrix,) = ctx.saved_tensors
    return _edge_matmul(grad, matrix.transpose(1, 2), ctx.tf32), None, None


_edge_matmul.register_autograd(_first_order, setup_context=_save)
