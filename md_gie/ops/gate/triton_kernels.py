"""Triton kernels of the gated residual: one pass forward, one backward.

Arrays are (ROWS, columns) with ROWS = F E rows of streams and edges: ``y0``, ``z0`` with the rows
l = 0..L of m = 0, ``y1``, ``z1`` with the rows of m = -1 and then of m = +1, l = 1..L; ``logits``
(ROWS, L Cf) of the gates.
"""

import triton
import triton.language as tl


@triton.jit
def forward(
    y0, y1, z0, z1, logits, x0, x1, n_rows, L: tl.constexpr, WIDTH: tl.constexpr, BE: tl.constexpr,
    BC: tl.constexpr,
):  # fmt: skip
    """Residual plus gated features."""
    row = tl.program_id(0).to(tl.int64) * BE + tl.arange(0, BE)
    c = tl.arange(0, BC)
    mask = (row < n_rows)[:, None] & (c < WIDTH)[None, :]
    at0 = row[:, None] * ((L + 1) * WIDTH) + c[None, :]
    at1 = row[:, None] * (2 * L * WIDTH) + c[None, :]
    z = tl.load(z0 + at0, mask, 0.0)
    tl.store(x0 + at0, tl.load(y0 + at0, mask, 0.0) + z * sigmoid(z), mask)
    for l in tl.static_range(1, L + 1):
        at = row[:, None] * (L * WIDTH) + (l - 1) * WIDTH + c[None, :]
        gate = sigmoid(tl.load(logits + at, mask, 0.0))
        at = at0 + l * WIDTH
        tl.store(x0 + at, tl.load(y0 + at, mask, 0.0) + gate * tl.load(z0 + at, mask, 0.0), mask)
        for sign in tl.static_range(2):
            at = at1 + (sign * L + l - 1) * WIDTH
            value = tl.load(y1 + at, mask, 0.0) + gate * tl.load(z1 + at, mask, 0.0)
            tl.store(x1 + at, value, mask)


@triton.jit
def backward(
    g0, g1, z0, z1, logits, d_z0, d_z1, d_logits, n_rows, L: tl.constexpr, WIDTH: tl.constexpr,
    BE: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Gradients for the features and the logits, each through its own path only."""
    row = tl.program_id(0).to(tl.int64) * BE + tl.arange(0, BE)
    c = tl.arange(0, BC)
    mask = (row < n_rows)[:, None] & (c < WIDTH)[None, :]
    at0 = row[:, None] * ((L + 1) * WIDTH) + c[None, :]
    at1 = row[:, None] * (2 * L * WIDTH) + c[None, :]
    z = tl.load(z0 + at0, mask, 0.0)
    share = sigmoid(z)
    slope = share * (1 + z * (1 - share))
    tl.store(d_z0 + at0, tl.load(g0 + at0, mask, 0.0) * slope, mask)
    for l in tl.static_range(1, L + 1):
        at_gate = row[:, None] * (L * WIDTH) + (l - 1) * WIDTH + c[None, :]
        gate = sigmoid(tl.load(logits + at_gate, mask, 0.0))
        at = at0 + l * WIDTH
        g = tl.load(g0 + at, mask, 0.0)
        total = g * tl.load(z0 + at, mask, 0.0)
        tl.store(d_z0 + at, g * gate, mask)
        for sign in tl.static_range(2):
            at = at1 + (sign * L + l - 1) * WIDTH
            g = tl.load(g1 + at, mask, 0.0)
            total += g * tl.load(z1 + at, mask, 0.0)
            tl.store(d_z1 + at, g * gate, mask)
        tl.store(d_logits + at_gate, total * gate * (1 - gate), mask)


@triton.jit
def sigmoid(x):
    """Logistic function in the dtype of ``x``; Triton's own knows float32 only in some versions."""
    return 1.0 / (1.0 + tl.exp(-x))
