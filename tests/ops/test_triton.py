"""Triton kernels against the references: Triton's interpreter on a CPU, the real ones on a GPU."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

pytest.importorskip("triton")

from md_gie.ops import harmonic_scatter, launch, zonal_scatter
from md_gie.ops.csr import segment_sum
from md_gie.ops.edge_matmul import edge_matmul
from md_gie.ops.zonal_scatter.harmonics import real_harmonics

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {torch.float64: 1e-13, torch.float32: 4e-6, torch.bfloat16: 2e-2}
COUNTS = [3, 0, 17, 1, 0]
every_shape = pytest.mark.parametrize(
    ("degree", "channels", "scalar", "shared"),
    [
        (1, 1, False, False), (2, 24, True, False), (2, 24, True, True), (3, 32, False, False),
        (3, 48, False, True), (4, 96, False, False), (5, 5, False, True), (6, 3, True, False),
        (3, 100, False, False), (8, 4, False, False),
    ],
)  # fmt: skip


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU, say that the kernels serve CPU tensors: the interpreter does."""
    if DEVICE == "cpu":
        monkeypatch.setattr(launch, "is_served", lambda tensor: tensor.dtype in launch.DTYPES)


def case(
    degree: int, channels: int, *, scalar: bool, shared: bool, dtype: torch.dtype, padding: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(degree * 100 + channels)
    n_edges, rows = sum(COUNTS) + padding, (degree + 1) ** 2 - (not scalar)
    slots = 1 if shared else degree + scalar
    coupling = torch.randn(n_edges, rows, generator=generator, dtype=torch.float64)
    radial = torch.randn(n_edges, slots, channels, generator=generator, dtype=torch.float64)
    row_ptr = torch.tensor([0, *COUNTS]).cumsum(0).to(torch.int32)
    return coupling.to(DEVICE, dtype), radial.to(DEVICE, dtype), row_ptr.to(DEVICE)


def gradients(function: Any, inputs: list[Tensor]) -> list[Tensor]:
    """Value, first derivatives of a random form and of a random form of those."""
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    out = function(*leaves)
    generator = torch.Generator().manual_seed(4)

    def form(tensors: list[Tensor]) -> Tensor:
        weights = [
            torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t.device, t.dtype)
            for t in tensors
        ]
        return sum((t * w).sum() for t, w in zip(tensors, weights, strict=True))  # type: ignore[return-value]

    first = torch.autograd.grad(form([out]), leaves, create_graph=True)
    return [out, *first, *torch.autograd.grad(form([*first]), leaves)]


def close(got: Tensor, want: Tensor, dtype: torch.dtype) -> None:
    got, want = got.detach(), want.detach()
    scale = max(1.0, float(want.abs().max())) if want.numel() else 1.0
    assert_close(got.double().cpu(), want.double().cpu(), rtol=0, atol=TOLERANCE[dtype] * scale)


@every_shape
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_zonal_scatter_through_second_order(
    degree: int, channels: int, scalar: bool, shared: bool, dtype: torch.dtype
) -> None:
    *inputs, row_ptr = case(degree, channels, scalar=scalar, shared=shared, dtype=dtype)
    exact = [tensor.double() for tensor in inputs]
    results = gradients(lambda a, b: zonal_scatter(a, b, row_ptr), inputs)
    expected = gradients(lambda a, b: zonal_scatter(a, b, row_ptr, fused=False), exact)
    for got, want in zip(results, expected, strict=True):
        assert got.dtype == dtype
        close(got, want, dtype)


@every_shape
def test_padding_adds_nothing_and_gets_nothing(
    degree: int, channels: int, scalar: bool, shared: bool
) -> None:
    shape = {"scalar": scalar, "shared": shared, "dtype": torch.float32}
    coupling, radial, row_ptr = case(degree, channels, padding=70, **shape)
    n_edges = sum(COUNTS)
    padded = gradients(lambda a, b: zonal_scatter(a, b, row_ptr), [coupling, radial])[:3]
    exact = gradients(
        lambda a, b: zonal_scatter(a, b, row_ptr), [coupling[:n_edges], radial[:n_edges]]
    )[:3]
    assert torch.equal(padded[0], exact[0])
    for one, other in zip(padded[1:], exact[1:], strict=True):
        assert torch.equal(one[:n_edges], other)
        assert not one[n_edges:].any()


@pytest.mark.parametrize("counts", [[], [0, 0], [0]])
def test_nothing_to_sum(counts: list[int]) -> None:
    row_ptr = torch.tensor([0, *counts], device=DEVICE).cumsum(0)
    coupling = torch.zeros(0, 15, device=DEVICE, requires_grad=True)
    radial = torch.zeros(0, 3, 8, device=DEVICE, requires_grad=True)
    out = zonal_scatter(coupling, radial, row_ptr)
    assert out.shape == (len(counts), 16, 8)
    assert not out.any()
    d_coupling, d_radial = torch.autograd.grad(out.sum(), (coupling, radial))
    assert (d_coupling.shape, d_radial.shape) == (coupling.shape, radial.shape)


def test_slices_and_strides_are_taken_as_they_are() -> None:
    coupling, radial, row_ptr = case(3, 32, scalar=False, shared=False, dtype=torch.float32)
    wide = torch.stack([coupling, -coupling], dim=2)
    long = torch.stack([radial, -radial], dim=0)
    expected = zonal_scatter(coupling, radial, row_ptr)
    assert torch.equal(zonal_scatter(wide[:, :, 0], long[0], row_ptr.long()), expected)
    turned = radial.transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.equal(zonal_scatter(coupling, turned, row_ptr), expected)


def test_the_same_bits_every_time() -> None:
    coupling, radial, row_ptr = case(3, 32, scalar=False, shared=False, dtype=torch.float32)
    first, *rest = (
        gradients(lambda a, b: zonal_scatter(a, b, row_ptr), [coupling, radial]) for _ in range(3)
    )
    for other in rest:
        assert all(map(torch.equal, first, other))


@pytest.mark.parametrize("degree", [1, 2, 3, 5])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_harmonic_scatter_through_second_order(
    degree: int, shared: bool, dtype: torch.dtype
) -> None:
    _, radial, row_ptr = case(degree, 40, scalar=False, shared=shared, dtype=dtype)
    generator = torch.Generator().manual_seed(2)
    vectors = torch.randn(len(radial), 3, generator=generator, dtype=torch.float64)
    vectors = vectors.to(DEVICE, dtype)

    def composed(vectors: Tensor, radial: Tensor) -> Tensor:
        return zonal_scatter(real_harmonics(vectors, degree, 1e-3), radial, row_ptr, fused=False)

    results = gradients(
        lambda v, r: harmonic_scatter(v, r, row_ptr, degree, 1e-3), [vectors, radial]
    )
    expected = gradients(composed, [vectors.double(), radial.double()])
    for got, want in zip(results, expected, strict=True):
        close(got, want, dtype)


@pytest.mark.parametrize(("width", "columns"), [(32, 32), (96, 96), (100, 70), (128, 192)])
def test_edge_matmul_is_as_exact_as_float32(width: int, columns: int) -> None:
    generator = torch.Generator().manual_seed(6)
    # Rows of very different size: each is scaled by itself.
    size = torch.logspace(-9, 9, 131)[None, :, None]
    x = (torch.randn(2, 131, 2 * width, generator=generator) * size).to(DEVICE)[:, :, :width]
    matrix = torch.randn(2, width, columns, generator=generator).to(DEVICE)
    for left, right in ((x, matrix), (edge_matmul(x, matrix, fused=True), matrix.transpose(1, 2))):
        exact = left.double() @ right.double()
        error = (edge_matmul(left, right, fused=True) - exact).abs().amax(2) / exact.abs().amax(2)
        assert float(error.max()) < 2e-6


def test_edge_matmul_passes_gradients_and_what_is_not_finite() -> None:
    x = torch.randn(1, 5, 32, device=DEVICE, requires_grad=True)
    matrix = torch.randn(1, 32, 64, device=DEVICE)
    out = edge_matmul(x, matrix, fused=True)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    close(gradient, matrix.sum(2)[:, None].expand_as(x), torch.float32)
    broken = x.detach().clone()
    broken[0, 2, 3] = float("nan")
    result = edge_matmul(broken, matrix, fused=True)
    assert bool(result[0, 2].isnan().all())
    assert bool(result[0, [0, 1, 3, 4]].isfinite().all())


@pytest.mark.parametrize("width", [1, 3, 130])
def test_segment_sum(width: int) -> None:
    generator = torch.Generator().manual_seed(8)
    values = torch.randn(sum(COUNTS), width, generator=generator, dtype=torch.float64).to(DEVICE)
    order = torch.randperm(sum(COUNTS), generator=generator).to(torch.int32).to(DEVICE)
    row_ptr = torch.tensor([0, *COUNTS]).cumsum(0).to(torch.int32).to(DEVICE)
    for permutation in (None, order):
        taken = values if permutation is None else values[permutation.long()]
        want = torch.stack([part.sum(0) for part in taken.split(COUNTS)])
        close(segment_sum(values, row_ptr, permutation), want, torch.float64)


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="needs a CUDA device with 40 GB")
def test_more_elements_than_32_bits_count() -> None:
    n_edges, channels = 2**31 // (3 * 64) + 64, 64
    row_ptr = torch.arange(0, n_edges + 1, 64, dtype=torch.int32, device=DEVICE)
    row_ptr = torch.cat([row_ptr, row_ptr.new_tensor([n_edges])])
    coupling = torch.ones(n_edges, 15, device=DEVICE)
    radial = torch.ones(n_edges, 3, channels, device=DEVICE)
    assert radial.numel() > 2**31
    out = zonal_scatter(coupling, radial, row_ptr)
    assert bool((out[:-1, 1:] == 64).all())
    d_coupling, d_radial = torch.ops.md_gie.zonal_scatter_backward(out, coupling, radial, row_ptr)
    assert bool((d_radial[-1000:-200] == d_radial[0]).all())
    assert bool((d_coupling[-1000:-200] == d_coupling[0]).all())


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="needs a CUDA device")
def test_edge_matmul_of_more_tiles_than_a_grid_is_wide() -> None:
    n_edges = 128 * 65535 + 300
    x = torch.ones(1, n_edges, 4, device=DEVICE)
    matrix = torch.ones(1, 4, 2, device=DEVICE)
    assert bool((edge_matmul(x, matrix) == 4).all())
