"""Parts of the model against numbers worked out from their definitions."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from md_gie.model.grid import GridProduct
from md_gie.model.layers import row_degrees
from md_gie.model.radial import envelope
from md_gie.model.weights import Weights
from md_gie.model.wigner import edge_frames, frame_tables, harmonics, kept_orders

EDGE = np.array([0.3, -0.5, 0.8])
LENGTH = float(np.linalg.norm(EDGE))
ZONAL = {
    1: [-0.50507627, 0.80812204, -0.30304576],
    2: [0.26510982, -0.70695951, 0.47959184, -0.42417571, -0.14139190],
    3: [-0.00814894, 0.47905763, -0.70064737, 0.10719986, -0.42038842, -0.25549740, 0.16134893],
}
# Wigner matrices of one rotation that takes the edge to the z axis.
FULL = {
    1: [
        [0.85892630, 0.50502956, -0.08479833],
        [-0.50507627, 0.80812204, -0.30304576],
        [-0.08451967, 0.30312360, 0.94919572],
    ],
    2: [
        [0.82245629, 0.21767590, 0.26515339, 0.45366752, -0.00789404],
        [-0.21746435, 0.43903882, 0.70689413, -0.22157447, 0.45952107],
        [0.26510982, -0.70695951, 0.47959184, -0.42417571, -0.14139190],
        [-0.45380291, -0.22140275, 0.42428466, 0.67520565, -0.33033862],
        [-0.00739019, -0.45940308, -0.14131018, 0.33054929, 0.81219628],
    ],
}


def double(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("exponent", "values"),
    [(5, (0.99559709, 0.63671875, 0.00256495)), (7, (0.99974946, 0.828125, 0.00671625))],
)
def test_envelope(exponent: int, values: tuple[float, ...]) -> None:
    r = double([LENGTH, 3.0, 5.5])
    assert_close(envelope(r / 6.0, exponent), double(values), rtol=0, atol=6e-9)


@pytest.mark.parametrize("exponent", [1, 5, 7])
def test_envelope_ends_with_a_zero_of_fourth_order(exponent: int) -> None:
    x = double([1.0, 1.2]).requires_grad_()
    y = envelope(x, exponent)
    for _ in range(3):
        assert y.abs().max() == 0
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert y.abs().max() == 0
    # Its complement starts with x to the power of the exponent.
    near = envelope(double([1e-2]), exponent)
    leading = math.comb(exponent + 3, 3) * 1e-2**exponent
    assert_close(1.0 - near, double([leading]), rtol=0.1, atol=1e-13)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("bessel", (0.50034025, 0.86923572, 1.00977361, 0.88503311)),
        ("gaussian", (0.88448425, 0.88005065, 0.32212968, 0.04337698)),
    ],
)
def test_radial_basis(kind: str, values: tuple[float, ...], make_model) -> None:  # type: ignore[no-untyped-def]
    model = make_model(rcut=6.0, basis_type=kind, edge_norm=False)
    f = model.geometry.fold(Weights(dict(model.named_parameters()), "descriptor.")).radial
    centres = double([0, 2, 4, 6]) if kind == "gaussian" else double([1, 2, 3, 4]) * math.pi / 6
    f = f._replace(frequencies=centres[None])
    assert_close(
        model.geometry.radial(f, double([LENGTH])).basis, double([values]), rtol=0, atol=6e-9
    )


def test_harmonics() -> None:
    basis = harmonics(EDGE[None] / LENGTH, 3)
    for degree, values in ZONAL.items():
        np.testing.assert_allclose(basis[degree][0], values, atol=6e-9)


@pytest.mark.parametrize("degree", range(9))
def test_harmonics_are_orthogonal_with_unit_sum_of_squares(degree: int) -> None:
    nodes, weights = np.polynomial.legendre.leggauss(20)
    angle = 2 * np.pi * np.arange(40) / 40
    z, phi = (a.ravel() for a in np.meshgrid(nodes, angle, indexing="ij"))
    s = np.sqrt(1 - z**2)
    basis = harmonics(np.stack([s * np.cos(phi), s * np.sin(phi), z], 1), degree)[degree]
    measure = np.repeat(weights, 40) / 80
    np.testing.assert_allclose((basis**2).sum(1), 1.0, atol=1e-12)
    gram = basis.T @ (measure[:, None] * basis)
    np.testing.assert_allclose(gram, np.eye(2 * degree + 1) / (2 * degree + 1), atol=1e-12)


def test_wigner_rows_of_a_known_edge_up_to_roll() -> None:
    unit = torch.from_numpy(EDGE[None] / LENGTH)
    frames = edge_frames(unit, frame_tables(2, 2), 2, 2)
    angles = []
    for degree, full in FULL.items():
        theirs = double(full)
        assert_close(frames[degree][0, 0], theirs[degree], rtol=0, atol=6e-9)
        for m in range(1, degree + 1):
            pair = torch.stack([theirs[degree - m], theirs[degree + m]])
            roll = pair @ frames[degree][0, 2 * m - 1 : 2 * m + 1].T
            assert_close(roll @ roll.T, torch.eye(2).double(), rtol=0, atol=3e-8)
            angles.append((math.atan2(roll[0, 1], roll[0, 0]) / m) % (2 * math.pi / m))
    # One rotation about the edge accounts for all of them.
    assert angles[1] == pytest.approx(angles[0], abs=1e-7)
    assert angles[2] == pytest.approx(angles[0] % math.pi, abs=1e-7)


@pytest.mark.parametrize(("lmax", "order"), [(1, 1), (3, 1), (5, 1), (6, 2), (4, 4)])
def test_wigner_rows_belong_to_a_rotation_that_lifts_the_edge(lmax: int, order: int) -> None:
    rng = np.random.default_rng(0)
    unit = np.concatenate([rng.normal(size=(40, 3)), np.eye(3), -np.eye(3)])
    unit /= np.linalg.norm(unit, axis=1)[:, None]
    frames = edge_frames(torch.from_numpy(unit), frame_tables(lmax, order), lmax, order)
    points = rng.normal(size=(300, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    basis = harmonics(points, lmax)
    axes, signs = [1, 2, 0], np.diag([1.0, 1.0, -1.0])
    for number, direction in enumerate(unit):
        rotation = np.zeros((3, 3))
        rows = frames[1][number].numpy()[[1, 0, 2]]
        rotation[np.ix_(axes, axes)] = signs @ rows @ signs
        np.testing.assert_allclose(rotation @ direction, [0, 0, 1], atol=1e-14)
        np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-14)
        assert np.linalg.det(rotation) == pytest.approx(1.0)
        rotated = harmonics(points @ rotation.T, lmax)
        for degree in range(1, lmax + 1):
            kept = [degree + k for k in kept_orders(min(order, degree))]
            full = np.linalg.lstsq(basis[degree], rotated[degree], rcond=None)[0].T
            np.testing.assert_allclose(frames[degree][number], full[kept], atol=1e-12)


class Uncast:
    """Stands for a model's weights: constants as they are."""

    def constant(self, table: Tensor) -> Tensor:
        return table


def product(degree: int, kmax: int, left: Tensor, right: Tensor) -> Tensor:
    """Product of coefficients (D, K)."""
    grid = GridProduct(degree, kmax)
    pairs = torch.stack([left, right], dim=-1).permute(1, 0, 2)[:, :, None, :, None]
    return grid(grid.fold(Uncast()), pairs)[:, :, 0, 0].T  # type: ignore[arg-type]


def ramp_and_cosine(n: int) -> tuple[Tensor, Tensor]:
    index = torch.arange(float(n), dtype=torch.float64)
    return 0.1 * index - 0.3, torch.cos(index)


def test_product_on_the_rotation_group() -> None:
    left, right = (x.view(4, 3) for x in ramp_and_cosine(12))
    expected = [
        -0.50741921, 0, 0, -0.26614119, 0.95225763, -0.05135290, -0.26466186, 0.56381195,
        0.43880224, 1.17614765, 0.56565698, 0.94663276,
    ]  # fmt: skip
    mask = torch.ones(4, 3, dtype=torch.float64)
    mask[0, 1:] = 0
    got = product(1, 1, left * mask, right * mask).flatten()
    assert_close(got, double(expected), rtol=0, atol=6e-9)


def test_product_on_the_sphere() -> None:
    left, right = (x.view(4, 1) for x in ramp_and_cosine(4))
    expected = [-0.22779345, -0.25603678, 0.01756740, 0.21000912]
    # Fields of the format carry 1/sqrt(L + 1), and projections sqrt(L + 1).
    got = product(1, 0, left, right).flatten() / math.sqrt(2.0)
    assert_close(got, double(expected), rtol=0, atol=6e-9)


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("kmax", [0, 1])
def test_grid_product_is_the_integral_over_rotations(degree: int, kmax: int) -> None:
    """Against a quadrature of another kind: Gauss-Legendre by uniform angles."""
    generator = torch.Generator().manual_seed(degree)
    rows, frames = (degree + 1) ** 2, 2 * kmax + 1
    left, right = (
        torch.randn(rows, frames, generator=generator, dtype=torch.float64) for _ in range(2)
    )
    left[0, 1:] = right[0, 1:] = 0
    n = 3 * degree + 2
    nodes, weights = np.polynomial.legendre.leggauss(n)
    z, phi = (a.ravel() for a in np.meshgrid(nodes, 2 * np.pi * np.arange(n) / n, indexing="ij"))
    s = np.sqrt(1 - z**2)
    points = torch.from_numpy(np.stack([s * np.cos(phi), s * np.sin(phi), z], 1))
    base = edge_frames(points, frame_tables(degree, kmax), degree, kmax)
    measure = torch.from_numpy(np.repeat(weights, n) / (2 * n))
    total = torch.zeros(rows, frames, dtype=torch.float64)
    rolls = 2 * math.pi * np.arange(3 * kmax + 1) / (3 * kmax + 1)
    for roll in rolls:
        table = torch.zeros(len(points), rows, frames, dtype=torch.float64)
        for l_, d in enumerate(base):
            block = slice(l_ * l_, (l_ + 1) ** 2)
            table[:, block, 0] = d[:, 0]
            if kmax and l_:
                table[:, block, 1] = math.cos(roll) * d[:, 1] - math.sin(roll) * d[:, 2]
                table[:, block, 2] = math.sin(roll) * d[:, 1] + math.cos(roll) * d[:, 2]
        f, g = ((table * x).sum((1, 2)) for x in (left, right))
        total += ((measure * f * g)[:, None, None] * table).sum(0) / len(rolls)
    expected = (2.0 * row_degrees(degree).double() + 1.0)[:, None] * total
    assert_close(product(degree, kmax, left, right), expected, rtol=0, atol=1e-12)
