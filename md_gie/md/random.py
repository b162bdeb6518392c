"""Normal and gamma random numbers from (seed, step, atom), the same bits on every device.

A restart, another cadence of output or another device draws the same numbers, because there is no
generator state: the counter is the step and the atom. Only integer operations, correctly rounded
arithmetic and square roots are used; a device's own ``log``, ``sin`` and ``cos`` differ in the
last bit.

References
----------
Philox4x32-10: Salmon, Moraes, Dror and Shaw, Proc. SC'11, article 16 (2011),
doi:10.1145/2063384.2063405. Normal pairs: Box and Muller, Ann. Math. Stat. 29, 610 (1958),
doi:10.1214/aoms/1177706645. Gamma numbers: Marsaglia and Tsang, ACM Trans. Math. Softw. 26, 363
(2000), doi:10.1145/358407.358414.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

THERMOSTAT = 0
"""Stream of the Langevin noise."""
VELOCITIES = 1
"""Stream of initial velocities."""
RESCALING = 2
"""Stream of the normal number that rescales velocities."""
RESCALING_REST = 3
"""Stream of the gamma number that stands for all other degrees of freedom."""
BAROSTAT = 4
"""Stream of the noise on the cell."""

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_CANDIDATES = 8
# atanh(s) / s, sin(pi g / 2) / g and cos(pi g / 2) as series in the square of their argument, to
# where the next term is below 1e-17 on the ranges |s| <= 0.1716 and |g| <= 1/2 used here.
_ATANH = tuple(1.0 / (2 * k + 1) for k in range(12))
_SIN = tuple(
    (-1) ** k * (math.pi / 2) ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(10)
)
_COS = tuple((-1) ** k * (math.pi / 2) ** (2 * k) / math.factorial(2 * k) for k in range(10))


def philox4x32(counter: Sequence[Tensor], key: tuple[int, int]) -> list[Tensor]:
    """Ten rounds of Philox: four 32-bit words for a counter of four and a key of two.

    Parameters
    ----------
    counter : four int64 tensors that broadcast together, values in [0, 2**32)
    key : two int in [0, 2**32)

    Returns
    -------
    list of four int64 tensors, values in [0, 2**32)
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        # A product of two words wraps in int64, which leaves its 64 bits right.
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            ((p1 >> 32) & _WORD) ^ c1 ^ k0,
            p1 & _WORD,
            ((p0 >> 32) & _WORD) ^ c3 ^ k1,
            p0 & _WORD,
        )
        k0, k1 = (k0 + _KEY_STEPS[0]) & _WORD, (k1 + _KEY_STEPS[1]) & _WORD
    return [c0, c1, c2, c3]


def normals(seed: int, steps: range, n_atoms: int, device: torch.device, *, stream: int) -> Tensor:
    """Independent standard normal numbers for steps and atoms.

    Parameters
    ----------
    seed : int in [0, 2**64)
    steps : range
        Step numbers, each in [0, 2**63).
    n_atoms : int
    device : torch.device
    stream : int
        What the numbers are for; different streams are independent.

    Returns
    -------
    (len(steps), n_atoms, 3) float64
        Row ``[k, i]`` depends on ``seed``, ``steps[k]``, ``i`` and ``stream`` alone.
    """
    words = _words(seed, steps, range(n_atoms), device, stream)
    first = _box_muller(words[0], words[1])
    second = _box_muller(words[2], words[3])
    return torch.stack([*first, second[0]], dim=-1)


def gammas(seed: int, steps: range, shape: float, *, stream: int) -> Tensor:
    """Independent gamma numbers of unit scale, one for each step.

    Parameters
    ----------
    seed : int in [0, 2**64)
    steps : range
        Step numbers, each in [0, 2**63).
    shape : float
        At least 1; also the mean and the variance.
    stream : int

    Returns
    -------
    (len(steps),) float64 on the CPU
        Entry ``k`` depends on ``seed``, ``steps[k]``, ``shape`` and ``stream`` alone.
    """
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    result = torch.full((len(steps),), torch.nan, dtype=torch.float64)
    first = 0
    # Nineteen of twenty candidates are taken, so that the second round is a rarity.
    while bool(torch.isnan(result).any()):
        candidates = range(first, first + _CANDIDATES)
        words = _words(seed, steps, candidates, result.device, stream)
        normal = _box_muller(words[0], words[1])[0]
        cube = (1.0 + c * normal) ** 3
        safe = cube.clamp_min(torch.finfo(torch.float64).tiny)
        bound = 0.5 * normal * normal + d - d * cube + d * _log(safe)
        taken = (cube > 0) & (_log(_uniform(words[2])) < bound)
        value = (d * cube).gather(1, taken.int().argmax(1, keepdim=True))[:, 0]
        result = torch.where(torch.isnan(result) & taken.any(1), value, result)
        first += _CANDIDATES
    return result


class Draws:
    """Random numbers of successive steps, drawn in blocks so that a step costs few operations.

    What is returned for a step does not depend on which steps were asked for before.

    Parameters
    ----------
    draw : callable
        Takes a range of steps; returns a tensor with a row for each.
    block : int
        Steps drawn at once.
    """

    def __init__(self, draw: Callable[[range], Tensor], block: int) -> None:
        self._draw, self._count = draw, block
        self._steps = range(0)
        self._rows = torch.empty(0)

    def at(self, step: int) -> Tensor:
        """Return the row of a step."""
        if step not in self._steps:
            self._steps = range(step, step + self._count)
            self._rows = self._draw(self._steps)
        return self._rows[step - self._steps.start]


def _words(
    seed: int, steps: range, atoms: range, device: torch.device, stream: int
) -> list[Tensor]:
    step = torch.tensor(list(steps), dtype=torch.int64, device=device)[:, None]
    atom = torch.arange(atoms.start, atoms.stop, dtype=torch.int64, device=device)[None, :]
    purpose = torch.tensor([[stream]], dtype=torch.int64, device=device)
    return philox4x32([atom, step & _WORD, step >> 32, purpose], (seed & _WORD, seed >> 32))


def _uniform(word: Tensor) -> Tensor:
    return (word.to(torch.float64) + 0.5) * 2.0**-32


def _box_muller(radius_word: Tensor, angle_word: Tensor) -> tuple[Tensor, Tensor]:
    radius = torch.sqrt(-2.0 * _log(_uniform(radius_word)))
    # The upper two bits choose a quadrant, the rest an angle of up to 45 degrees about its axis.
    fraction = ((angle_word & 0x3FFFFFFF).to(torch.float64) + 0.5) * 2.0**-30 - 0.5
    square = fraction * fraction
    sine, cosine = fraction * _series(_SIN, square), _series(_COS, square)
    quadrant = angle_word >> 30
    odd = (quadrant & 1).bool()
    sign = 1.0 - (quadrant & 2).to(torch.float64)
    x = torch.where(odd, -sine, cosine) * sign
    y = torch.where(odd, cosine, sine) * sign
    return radius * x, radius * y


def _log(x: Tensor) -> Tensor:
    mantissa, exponent = torch.frexp(x)
    low = mantissa < math.sqrt(0.5)
    mantissa = torch.where(low, mantissa * 2.0, mantissa)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    power = exponent.to(torch.float64) - low.to(torch.float64)
    return power * math.log(2.0) + 2.0 * s * _series(_ATANH, s * s)


def _series(coefficients: Sequence[float], x: Tensor) -> Tensor:
    # Separate multiply and add: a fused one would round differently from device to device.
    value = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = value * x
        value = value + coefficient
    return value
