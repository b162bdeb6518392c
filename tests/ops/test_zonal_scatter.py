"""Zonal scatter: the operator against its reference and against sums written out by hand."""

import itertools
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from md_gie.ops import zonal_scatter
from md_gie.ops.zonal_scatter import op, reference

# Ten times the largest error of this sweep, relative to the answer's largest element.
TOLERANCE = {torch.float32: 4e-6, torch.float64: 1e-14}
COUNTS = {
    "uneven": [3, 0, 5, 1],
    "no-edges": [0, 0, 0],
    "one-long-row": [130],
    "many-short-rows": [1] * 33,
    "no-atoms": [],
}
LAYOUTS = pytest.mark.parametrize(
    ("scalar", "shared"), [(False, False), (False, True), (True, False), (True, True)]
)
SIZES = [(1, 1), (2, 7), (3, 24), (4, 48), (5, 96), (6, 100)]


def random_case(
    lmax: int, channels: int, counts: Sequence[int], *, scalar: bool, shared: bool, seed: int = 20
) -> tuple[Tensor, Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    edges, rows = sum(counts), (lmax + 1) ** 2 - (not scalar)
    slots = 1 if shared else lmax + scalar
    coupling = torch.randn(edges, rows, generator=gen, dtype=torch.float64)
    radial = torch.randn(edges, slots, channels, generator=gen, dtype=torch.float64)
    return coupling, radial, torch.tensor([0, *counts]).cumsum(0)


def by_hand(coupling: Tensor, radial: Tensor, row_ptr: Tensor) -> Tensor:
    """One edge, one degree, one order at a time."""
    lmax = int((coupling.shape[1] + 1) ** 0.5) - 1
    scalar = (lmax + 1) ** 2 == coupling.shape[1]
    out = radial.new_zeros(row_ptr.shape[0] - 1, (lmax + 1) ** 2, radial.shape[2])
    for i, (first, last) in enumerate(itertools.pairwise(row_ptr.tolist())):
        for e, degree in itertools.product(range(first, last), range(not scalar, lmax + 1)):
            slot = 0 if radial.shape[1] == 1 else degree - (not scalar)
            for m in range(-degree, degree + 1):
                row = degree * degree + degree + m
                out[i, row] += coupling[e, row - (not scalar)] * radial[e, slot]
    return out


def composed(coupling: Tensor, radial: Tensor, row_ptr: Tensor) -> Tensor:
    """Composition of PyTorch's own operators, differentiable to any order."""
    lmax = int((coupling.shape[1] + 1) ** 0.5) - 1
    first = (lmax + 1) ** 2 - coupling.shape[1]
    degrees = torch.arange(lmax + 1).repeat_interleave(2 * torch.arange(lmax + 1) + 1)[first:]
    slots = torch.zeros_like(degrees) if radial.shape[1] == 1 else degrees - first
    messages = torch.nn.functional.pad(coupling, (first, 0))[:, :, None] * torch.cat(
        [radial[:, :1]] * first + [radial[:, slots]], dim=1
    )
    n_rows = row_ptr.shape[0] - 1
    row = torch.arange(n_rows).repeat_interleave(row_ptr.diff())
    return radial.new_zeros(n_rows, *messages.shape[1:]).index_add(0, row, messages)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
@LAYOUTS
@pytest.mark.parametrize(("lmax", "channels"), SIZES)
def test_matches_composition_through_second_order(
    lmax: int,
    channels: int,
    scalar: bool,
    shared: bool,
    counts: list[int],
    dtype: torch.dtype,
) -> None:
    *inputs, row_ptr = random_case(lmax, channels, counts, scalar=scalar, shared=shared)

    def derivatives(
        scatter: Callable[[Tensor, Tensor, Tensor], Tensor], dtype: torch.dtype
    ) -> dict[str, Tensor]:
        leaves = [x.to(dtype).requires_grad_() for x in inputs]
        out = scatter(*leaves, row_ptr)
        first = torch.autograd.grad(out.square().sum(), leaves, create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), leaves)
        names = ["value", "first, coupling", "first, radial", "second, coupling", "second, radial"]
        return dict(zip(names, (out, *first, *second), strict=True))

    expected = derivatives(composed, torch.float64)
    for name, got in derivatives(zonal_scatter, dtype).items():
        scale = expected[name].abs().amax().item() if got.numel() else 0.0
        assert_close(
            got.double(),
            expected[name],
            rtol=0.0,
            atol=TOLERANCE[dtype] * scale,
            msg=lambda text, name=name: f"{name}: {text}",
        )


@LAYOUTS
@pytest.mark.parametrize("lmax", range(1, 7))
def test_matches_sums_by_hand(lmax: int, scalar: bool, shared: bool) -> None:
    case = random_case(lmax, 3, COUNTS["uneven"], scalar=scalar, shared=shared)
    for scatter in (zonal_scatter, reference.zonal_scatter, composed):
        assert_close(scatter(*case), by_hand(*case), rtol=0.0, atol=1e-13)


@LAYOUTS
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_reference_gives_the_same_gradients(scalar: bool, shared: bool, counts: list[int]) -> None:
    coupling, radial, row_ptr = random_case(3, 5, counts, scalar=scalar, shared=shared)
    grad = torch.randn(len(counts), 16, 5, dtype=torch.float64)
    compiled = op._zonal_scatter_backward(grad, coupling, radial, row_ptr)
    plain = reference.zonal_scatter_backward(grad, coupling, radial, row_ptr)
    for got, want in zip(compiled, plain, strict=True):
        assert_close(got, want, rtol=0.0, atol=1e-13)


@pytest.mark.parametrize("counts", [COUNTS["uneven"], COUNTS["no-edges"]], ids=["edges", "none"])
@LAYOUTS
def test_operator_contract(scalar: bool, shared: bool, counts: list[int]) -> None:
    coupling, radial, row_ptr = random_case(2, 3, counts, scalar=scalar, shared=shared)
    inputs = coupling.requires_grad_(), radial.requires_grad_(), row_ptr
    torch.library.opcheck(op._zonal_scatter, inputs)
    grad = torch.randn(len(counts), 9, 3, dtype=torch.float64, requires_grad=True)
    torch.library.opcheck(op._zonal_scatter_backward, (grad, *inputs))
    assert torch.autograd.gradcheck(zonal_scatter, inputs)
    assert torch.autograd.gradgradcheck(zonal_scatter, inputs)


class Layer(torch.nn.Module):
    def forward(self, coupling: Tensor, radial: Tensor, row_ptr: Tensor) -> Tensor:
        return zonal_scatter(coupling, 2.0 * radial, row_ptr).square().sum(1)


def test_survives_export_with_any_number_of_edges() -> None:
    example = random_case(2, 5, [4, 2, 3], scalar=False, shared=False)
    edges, atoms = torch.export.Dim("edges"), torch.export.Dim("atoms", min=3)
    program = torch.export.export(
        Layer(), example, dynamic_shapes=({0: edges}, {0: edges}, {0: atoms})
    )
    assert "md_gie.zonal_scatter" in str(program.graph)
    other = random_case(2, 5, [1, 0, 9, 2], scalar=False, shared=False, seed=3)
    assert_close(program.module()(*other), Layer()(*other))


def test_index_types_and_strides_make_no_difference() -> None:
    coupling, radial, row_ptr = random_case(3, 7, [3, 0, 5], scalar=False, shared=False)
    expected = zonal_scatter(coupling, radial, row_ptr)
    assert torch.equal(zonal_scatter(coupling, radial, row_ptr.int()), expected)
    strided = coupling.T.contiguous().T, radial.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    every_second = torch.stack([row_ptr, row_ptr], 1)[:, 0]
    assert not strided[0].is_contiguous()
    leaves = [x.requires_grad_() for x in strided]
    out = zonal_scatter(*leaves, every_second)
    assert torch.equal(out, expected)
    weight = torch.randn(16, 7, 3, dtype=torch.float64).permute(2, 0, 1)
    grads = torch.autograd.grad((out * weight).sum(), leaves)
    leaves = [coupling.clone().requires_grad_(), radial.clone().requires_grad_()]
    again = (composed(*leaves, row_ptr) * weight).sum()
    for got, want in zip(grads, torch.autograd.grad(again, leaves), strict=True):
        assert_close(got, want, rtol=0.0, atol=1e-13)


def test_half_precision_takes_the_reference() -> None:
    coupling, radial, row_ptr = random_case(2, 8, [3, 0, 5], scalar=False, shared=False)
    got = zonal_scatter(coupling.bfloat16(), radial.bfloat16(), row_ptr)
    assert got.dtype == torch.bfloat16
    assert_close(got.double(), zonal_scatter(coupling, radial, row_ptr), rtol=0.0, atol=0.15)


def test_same_bits_at_any_number_of_threads() -> None:
    counts = torch.randint(0, 60, (150,), generator=torch.Generator().manual_seed(1)).tolist()
    coupling, radial, row_ptr = random_case(3, 24, counts, scalar=False, shared=False)
    before, results = torch.get_num_threads(), []
    try:
        for n_threads in (1, 1, 2, 3, 2):
            torch.set_num_threads(n_threads)
            leaves = [x.float().requires_grad_() for x in (coupling, radial)]
            out = zonal_scatter(*leaves, row_ptr)
            results.append((out.detach(), *torch.autograd.grad(out.square().sum(), leaves)))
            assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)
    for result in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(result, results[0], strict=True))


ARGUMENTS = (torch.zeros(4, 8), torch.zeros(4, 2, 5), torch.tensor([0, 1, 4]))


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (0, torch.zeros(4), r"`coupling` must have 2 axes, got shape \(4,\)"),
        (1, torch.zeros(4, 5), r"`radial` must have 3 axes, got shape \(4, 5\)"),
        (2, torch.zeros(1, 3), r"`row_ptr` must have 1 axes, got shape \(1, 3\)"),
        (0, torch.zeros(4, 8, dtype=torch.int64), "must share one floating dtype, got torch.int64"),
        (1, torch.zeros(4, 2, 5).double(), "got torch.float32 and torch.float64"),
        (2, torch.zeros(3), "`row_ptr` must hold N . 1 integers, got 3 of torch.float32"),
        (2, torch.zeros(0, dtype=torch.int64), "`row_ptr` must hold N . 1 integers, got 0 of"),
        (1, torch.zeros(3, 2, 5), "`radial` has 3 edges, `coupling` has 4"),
        (0, torch.zeros(4, 7), r"must have \(L\+1\)² or \(L\+1\)² - 1 rows, got 7"),
        (0, torch.zeros(4, 0), r"must have \(L\+1\)² or \(L\+1\)² - 1 rows, got 0"),
        (1, torch.zeros(4, 3, 5), "must have 1 or 2 slots for 8 coupling rows, got 3"),
        (0, torch.zeros(4, 9), "must have 1 or 3 slots for 9 coupling rows, got 2"),
        (1, torch.zeros(4, 2, 5, device="meta"), "`radial` is on meta, `coupling` on cpu"),
        (2, torch.zeros(3, dtype=torch.int64, device="meta"), "`row_ptr` is on meta"),
    ],
)
def test_wrong_arguments_are_named(position: int, value: Tensor, message: str) -> None:
    arguments = [*ARGUMENTS]
    zonal_scatter(*arguments)
    arguments[position] = value
    with pytest.raises(ValueError, match=message):
        zonal_scatter(*arguments)
