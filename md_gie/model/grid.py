"""Products of equivariant fields on a grid: sphere (kmax = 0) and rotation group (kmax = 1).

A field with coefficients ``a[(l,m), k]`` is ``f(R) = sum a D_l(R)[k, m]``; the product of two
fields is projected back on the same coefficients. All three are band-limited, so the quadrature is
exact.
Over the roll γ about a grid direction a field with ``|k| <= 1`` is ``f0 + fc cos γ + fs sin γ``;
the roll integrals are done by hand, and only directions remain as grid points.
"""

import math
from typing import NamedTuple

import torch
from scipy.integrate import lebedev_rule
from torch import Tensor

from md_gie.model.layers import row_degrees
from md_gie.model.weights import Weights
from md_gie.model.wigner import edge_frames, frame_tables

# Degrees of exactness for which a Lebedev rule exists.
_LEBEDEV = (3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25)


class GridWeights(NamedTuple):
    """Tables of a grid product.

    Attributes
    ----------
    evaluate : (P, D), project : (D, P)
        Frame k = 0: coefficients to grid directions and back.
    evaluate_roll : (2P, 2D), project_roll : (2D, 2P)
        Frames k = -1, +1 to the cosine and sine parts and back; empty for kmax = 0.
    """

    evaluate: Tensor
    project: Tensor
    evaluate_roll: Tensor
    project_roll: Tensor


class GridProduct:
    """Pointwise product of two fields of one degree.

    Parameters
    ----------
    degree : int
        Largest degree L.
    kmax : int
        Largest frame order, 0 or 1.
    """

    def __init__(self, degree: int, kmax: int) -> None:
        self.n_frames = 2 * kmax + 1
        exact = next(order for order in _LEBEDEV if order >= 3 * degree)
        points, weights = lebedev_rule(exact)
        unit = torch.from_numpy(points.T.copy())
        frames = edge_frames(unit, frame_tables(degree, kmax), degree, kmax)
        self.evaluate = torch.cat([rows[:, 0] for rows in frames], dim=1)
        norm = (2.0 * row_degrees(degree).double() + 1.0)[:, None]
        quadrature = torch.from_numpy(weights / (4.0 * math.pi))
        self.project = norm * self.evaluate.T * quadrature
        self.evaluate_roll, self.project_roll = torch.empty(0, 0), torch.empty(0, 0)
        if kmax == 1:
            zero = torch.zeros(len(unit), 1, dtype=torch.float64)
            minus = torch.cat([zero] + [rows[:, 1] for rows in frames[1:]], dim=1)
            plus = torch.cat([zero] + [rows[:, 2] for rows in frames[1:]], dim=1)
            # Scaled by 1/sqrt(2), so that roll averages of products need no factor of their own.
            roll = torch.cat([torch.cat([minus, plus], 1), torch.cat([-plus, minus], 1)])
            # Convention of the sine's sign cancels: it enters products and projection alike.
            roll = torch.cat([roll[: len(unit)], -roll[len(unit) :]]) / math.sqrt(2.0)
            self.evaluate_roll = roll
            self.project_roll = norm.repeat(2, 1) * roll.T * quadrature.repeat(2)

    def fold(self, w: Weights) -> GridWeights:
        """Cast the tables."""
        return GridWeights(
            w.constant(self.evaluate),
            w.constant(self.project),
            w.constant(self.evaluate_roll),
            w.constant(self.project_roll),
        )

    def __call__(self, f: GridWeights, pairs: Tensor) -> Tensor:
        """Multiply the two fields of each pair.

        Parameters
        ----------
        pairs : (K, D, A, 2, B)
            Coefficients by frame (0, -1, +1) and packed row; axis 3 holds left and right.

        Returns
        -------
        (K, D, A, B)
        """
        frames, rows, a, _, b = pairs.shape
        columns = a * 2 * b
        points = f.evaluate.shape[0]
        values = f.evaluate @ pairs[0].reshape(rows, columns)
        left, right = values.view(points, a, 2, b).unbind(2)
        if frames == 1:
            return (f.project @ (left * right).flatten(1)).view(1, rows, a, b)
        roll = f.evaluate_roll @ pairs[1:].reshape(2 * rows, columns)
        roll_left, roll_right = roll.view(2, points, a, 2, b).unbind(3)
        even = left * right + (roll_left * roll_right).sum(0)
        odd = left * roll_right + roll_left * right
        zero = f.project @ even.flatten(1)
        rest = f.project_roll @ odd.reshape(2 * points, a * b)
        return torch.cat([zero.view(1, rows, a, b), rest.view(2, rows, a, b)])
