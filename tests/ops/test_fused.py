"""Fused CPU kernels of the edge path against their references: values and first derivatives."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from md_gie.ops import Edges
from md_gie.ops.attention import attention_weights
from md_gie.ops.gate import gated_residual
from md_gie.ops.rotation import pack_frames, rotate_in, rotate_out

TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5}  # relative to the largest element
COUNTS = {"uneven": [4, 0, 6, 1, 3], "no-edges": [0, 0], "one-row": [9], "no-atoms": []}
MODES = [("none", 0), ("rank", 1), ("rank", 2)]

Function = Callable[..., Sequence[Tensor]]
every_count = pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
every_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
every_degree = pytest.mark.parametrize("degree", [1, 2, 3, 4])
every_focus = pytest.mark.parametrize("n_focus", [1, 2])


def compare(fused: Function, plain: Function, inputs: list[Tensor], dtype: torch.dtype) -> None:
    """Same outputs and same gradient of a random linear form, for every input."""

    def run(function: Function, dtype: torch.dtype) -> list[Tensor]:
        leaves = [x.to(dtype).requires_grad_() for x in inputs]
        outputs = function(*leaves)
        generator = torch.Generator().manual_seed(5)
        form = sum(
            (y * torch.randn(y.shape, generator=generator, dtype=torch.float64).to(dtype)).sum()
            for y in outputs
        )
        return [*outputs, *torch.autograd.grad(form, leaves)]

    expected = run(plain, torch.float64)
    for number, (got, want) in enumerate(zip(run(fused, dtype), expected, strict=True)):
        assert got.dtype == dtype
        scale = max(1.0, want.abs().amax().item()) if want.numel() else 1.0
        assert_close(
            got.double(),
            want,
            rtol=0.0,
            atol=TOLERANCE[dtype] * scale,
            msg=lambda text, number=number: f"tensor {number}: {text}",
        )


def randn(*shape: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def random_frames(n_edges: int, degree: int) -> list[Tensor]:
    return [torch.ones(n_edges, 1, 1, dtype=torch.float64)] + [
        randn(n_edges, 3, 2 * k + 1) for k in range(1, degree + 1)
    ]


@every_count
@every_dtype
@every_degree
@every_focus
@pytest.mark.parametrize(("mode", "rank"), MODES)
def test_rotate_in(
    mode: str,
    rank: int,
    n_focus: int,
    degree: int,
    counts: list[int],
    dtype: torch.dtype,
    make_edges: Callable[..., Edges],
) -> None:
    edges, width = make_edges(counts), 3
    hidden = n_focus * width
    n_kernel = (degree + 1) ** 2 + degree**2
    radial = randn(edges.n_edges, (degree + 1) * hidden if mode == "none" else n_kernel * rank)
    basis = None if mode == "none" else randn(rank, hidden)
    frames = random_frames(edges.n_edges, degree)

    def rotate(nodes: Tensor, radial: Tensor, *frames: Tensor, fused: bool) -> list[Tensor]:
        rows = [torch.ones_like(radial[:, :1, None]), *frames]
        packed = pack_frames(rows) if fused else None
        kept = None if basis is None else basis.to(nodes)
        return rotate_in(
            nodes, rows, packed, radial, kept, edges, order=1, mode=mode, n_focus=n_focus
        )

    inputs = [randn(edges.n_atoms, (degree + 1) ** 2, hidden), radial, *frames[1:]]
    compare(lambda *x: rotate(*x, fused=True), lambda *x: rotate(*x, fused=False), inputs, dtype)


@every_count
@every_dtype
@every_degree
@every_focus
def test_rotate_out(
    n_focus: int,
    degree: int,
    counts: list[int],
    dtype: torch.dtype,
    make_edges: Callable[..., Edges],
) -> None:
    edges, width = make_edges(counts), 3
    frames = random_frames(edges.n_edges, degree)

    def rotate(zero: Tensor, one: Tensor, weights: Tensor, *frames: Tensor, fused: bool) -> Any:
        rows = [torch.ones_like(weights[:, :1, :1]), *frames]
        packed = pack_frames(rows) if fused else None
        return [rotate_out([zero, one], weights, rows, packed, edges)]

    inputs = [
        randn(n_focus, edges.n_edges, (degree + 1) * width),
        randn(n_focus, edges.n_edges, 2 * degree * width),
        randn(edges.n_edges, n_focus, 1),
        *frames[1:],
    ]
    compare(lambda *x: rotate(*x, fused=True), lambda *x: rotate(*x, fused=False), inputs, dtype)


@pytest.mark.parametrize("n_edges", [0, 1, 13])
@every_dtype
@every_degree
@every_focus
def test_gated_residual(n_focus: int, degree: int, n_edges: int, dtype: torch.dtype) -> None:
    width = 3
    zero = (n_focus, n_edges, (degree + 1) * width)
    one = (n_focus, n_edges, 2 * degree * width)
    matrix = randn(n_focus, width, degree * width)

    def gate(a: Tensor, b: Tensor, c: Tensor, d: Tensor, *, fused: bool) -> list[Tensor]:
        return gated_residual([a, b], [c, d], matrix.to(a), fused=fused)

    inputs = [randn(*zero), randn(*one), randn(*zero, seed=2), randn(*one, seed=2)]
    compare(lambda *x: gate(*x, fused=True), lambda *x: gate(*x, fused=False), inputs, dtype)


@every_count
@every_dtype
@every_focus
@pytest.mark.parametrize("n_heads", [1, 3])
def test_attention_weights(
    n_heads: int,
    n_focus: int,
    counts: list[int],
    dtype: torch.dtype,
    make_edges: Callable[..., Edges],
) -> None:
    edges = make_edges(counts)
    offset = torch.linspace(0.1, 2.0, n_focus * n_heads).double().reshape(n_focus, n_heads)

    def attend(
        query: Tensor, key: Tensor, bias: Tensor, envelope: Tensor, *, fused: bool
    ) -> list[Tensor]:
        return [attention_weights(query, key, bias, envelope, offset.to(bias), edges, fused=fused)]

    nodes = (edges.n_atoms, n_focus, n_heads, 4)
    inputs = [
        randn(*nodes),
        randn(*nodes, seed=2),
        randn(edges.n_edges, n_focus, n_heads),
        0.1 + randn(edges.n_edges).abs(),
    ]
    compare(lambda *x: attend(*x, fused=True), lambda *x: attend(*x, fused=False), inputs, dtype)


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "reference"])
@pytest.mark.parametrize("logit", [200.0, -200.0])
def test_attention_at_the_cutoff_is_exactly_zero(
    logit: float, fused: bool, make_edges: Callable[..., Edges]
) -> None:
    edges = make_edges([4, 3, 2])
    zeros = torch.zeros(3, 1, 1, 2, requires_grad=True)
    bias = torch.full((9, 1, 1), logit, requires_grad=True)
    envelope = torch.tensor([0.0, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0, 1e-20, 1.0], requires_grad=True)
    weights = attention_weights(zeros, zeros, bias, envelope, torch.ones(1, 1), edges, fused=fused)
    grads = torch.autograd.grad(weights.sum(), [bias, envelope, zeros])
    assert all(torch.isfinite(x).all() for x in (weights, *grads))
    outside = envelope.detach() == 0
    assert (weights[outside] == 0).all()
    assert (grads[0][outside] == 0).all()
    assert (grads[1][outside] == 0).all()
    total = weights[:4].sum().item()
    assert total == pytest.approx(1.0 if logit > 0 else 0.0, abs=1e-6)


def test_strides_make_no_difference(make_edges: Callable[..., Edges]) -> None:
    edges, degree = make_edges(COUNTS["uneven"]), 2
    frames = random_frames(edges.n_edges, degree)
    nodes, radial = randn(5, 9, 6), randn(edges.n_edges, 18)

    def run(nodes: Tensor, radial: Tensor) -> list[Tensor]:
        leaves = [nodes.detach().requires_grad_(), radial.detach().requires_grad_()]
        out = rotate_in(
            leaves[0], frames, pack_frames(frames), leaves[1], None, edges,
            order=1, mode="none", n_focus=2,
        )  # fmt: skip
        return [*out, *torch.autograd.grad(sum(y.square().sum() for y in out), leaves)]

    expected = run(nodes, radial)
    strided = run(nodes.permute(2, 1, 0).contiguous().permute(2, 1, 0), radial.T.contiguous().T)
    assert all(torch.equal(a, b) for a, b in zip(strided, expected, strict=True))
