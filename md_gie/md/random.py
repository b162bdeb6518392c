"""Normal random numbers from (seed, step, atom), the same bits on every device.

A restart, another cadence of output or another device draws the same numbers, because there is no
generator state: the counter is the step and the atom. Only integer operations, correctly rounded
arithmetic and square roots are used; a device's own ``log``, ``sin`` and ``cos`` differ in the
last bit.

References
----------
Philox4x32-10: Salmon, Moraes, Dror and Shaw, Proc. SC'11, article 16 (2011),
doi:10.1145/2063384.2063405. Normal pairs: Box and Muller, Ann. Math. Stat. 29, 610 (1958),
doi:10.1214/aoms/1177706645.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

THERMOSTAT = 0
"""Stream of the Langevin noise."""
VELOCITIES = 1
"""Stream of initial velocities."""

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
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
    step = torch.tensor(list(steps), dtype=torch.int64, device=device)[:, None]
    atom = torch.arange(n_atoms, dtype=torch.int64, device=device)[None, :]
    purpose = torch.tensor([[stream]], dtype=torch.int64, device=device)
    words = philox4x32([atom, step & _WORD, step >> 32, purpose], (seed & _WORD, seed >> 32))
    first = _box_muller(words[0], words[1])
    second = _box_muller(words[2], words[3])
    return torch.stack([*first, second[0]], dim=-1)


def _box_muller(radius_word: Tensor, angle_word: Tensor) -> tuple[Tensor, Tensor]:
    uniform = (radius_word.to(torch.float64) + 0.5) * 2.0**-32
    radius = torch.sqrt(-2.0 * _log(uniform))
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
