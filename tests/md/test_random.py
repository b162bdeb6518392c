"""Counter-based random numbers: published answers, distribution, and what they depend on."""

import numpy as np
import pytest
import torch
from scipy import stats

from md_gie.md import random

CPU = torch.device("cpu")

# Known answers that the authors of Philox distribute with Random123 (kat_vectors, philox4x32 10).
KNOWN = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_philox_gives_the_published_words(
    counter: list[int], key: list[int], expected: list[int]
) -> None:
    words = random.philox4x32([torch.tensor(word) for word in counter], (key[0], key[1]))
    assert [int(word) for word in words] == expected


def test_box_muller_agrees_with_numpy() -> None:
    words = torch.tensor([0, 1, 2**30, 2**31 - 1, 2**31, 3 * 2**30, 2**32 - 1] * 50)
    words = (words + torch.arange(350) * 7919) & 0xFFFFFFFF
    angles = words.flip(0)
    x, y = random._box_muller(words, angles)
    radius = np.sqrt(-2 * np.log((words.numpy() + 0.5) / 2**32))
    # An angle of zero is in the middle of the first quadrant of words.
    angle = 2 * np.pi * ((angles.numpy() + 0.5) / 2**32 - 0.125)
    np.testing.assert_allclose(x.numpy(), radius * np.cos(angle), rtol=0, atol=4e-15)
    np.testing.assert_allclose(y.numpy(), radius * np.sin(angle), rtol=0, atol=4e-15)


def test_numbers_depend_on_seed_step_atom_and_stream_alone() -> None:
    block = random.normals(5, range(10, 20), 7, CPU, stream=0)
    one = random.normals(5, range(13, 14), 4, CPU, stream=0)
    assert torch.equal(block[3, :4], one[0])
    others = [
        random.normals(6, range(13, 14), 4, CPU, stream=0),
        random.normals(5 + 2**32, range(13, 14), 4, CPU, stream=0),
        random.normals(5, range(13 + 2**32, 14 + 2**32), 4, CPU, stream=0),
        random.normals(5, range(13, 14), 4, CPU, stream=1),
    ]
    for other in others:
        assert not torch.isclose(other[0], one[0]).any()


def test_numbers_are_normal() -> None:
    x = random.normals(1, range(1000), 100, CPU, stream=0).reshape(-1, 3)
    n = len(x)
    # Five standard errors of each moment of n standard normal numbers.
    for column in x.T:
        assert abs(column.mean()) < 5 / n**0.5
        assert abs(column.square().mean() - 1) < 5 * (2 / n) ** 0.5
        assert abs((column**3).mean()) < 5 * (15 / n) ** 0.5
        assert abs((column**4).mean() - 3) < 5 * (96 / n) ** 0.5
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert abs((x[:, a] * x[:, b]).mean()) < 5 / n**0.5
        assert abs((x[:, a].square() * x[:, b].square()).mean() - 1) < 5 * (8 / n) ** 0.5
    assert abs((x[:-1, 0] * x[1:, 0]).mean()) < 5 / n**0.5


@pytest.mark.parametrize("shape", [1.0, 1.5, 46.0, 1e6])
def test_gamma_numbers_are_gamma_distributed(shape: float) -> None:
    x = random.gammas(3, range(20000), shape, stream=0)
    assert stats.kstest(x.numpy(), stats.gamma(shape).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 5 / len(x) ** 0.5


def test_gamma_numbers_depend_on_seed_step_and_stream_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    block = random.gammas(5, range(10, 200), 1.5, stream=0)
    assert torch.equal(random.gammas(5, range(13, 14), 1.5, stream=0), block[3:4])
    assert not torch.isclose(random.gammas(6, range(13, 14), 1.5, stream=0), block[3]).any()
    assert not torch.isclose(random.gammas(5, range(13, 14), 1.5, stream=1), block[3]).any()
    # Where no candidate of a round is taken, the next round gives the number.
    monkeypatch.setattr(random, "_CANDIDATES", 1)
    assert torch.equal(random.gammas(5, range(10, 200), 1.5, stream=0), block)


def test_draws_do_not_depend_on_the_order_of_steps() -> None:
    def draw(steps: range) -> torch.Tensor:
        return random.normals(5, steps, 2, CPU, stream=0)

    draws = random.Draws(draw, 16)
    for step in (0, 15, 16, 3, 1000, 17):
        assert torch.equal(draws.at(step), draw(range(step, step + 1))[0])
