"""Degrees of freedom: which atoms move, and what the dynamics leaves constant."""

from dataclasses import dataclass

import torch
from torch import Tensor

from md_gie.md import random
from md_gie.units import AMU_A2_FS2_EV, BOLTZMANN_EV_K

# Of the largest moment of inertia; below it a molecule does not turn about that axis.
_LINEAR = 1e-8


@dataclass(frozen=True, eq=False)
class Freedom:
    """Which atoms move, and how many degrees of freedom share the kinetic energy.

    Parameters
    ----------
    count : int
    fixed_center : bool
        The total momentum is a constant; its energy is not heat.
    movable : (N, 1) float64 or None
        1 for atoms that move and 0 for frozen ones; None if all move.
    """

    count: int
    fixed_center: bool = False
    movable: Tensor | None = None

    @classmethod
    def of(
        cls,
        n_atoms: int,
        *,
        conserves_momentum: bool,
        frozen: Tensor | None = None,
        n_rotations: int = 0,
    ) -> "Freedom":
        """Count the degrees of freedom of a system.

        Parameters
        ----------
        n_atoms : int
        conserves_momentum : bool
            Whether the integrator leaves the total momentum as it is when nothing is frozen.
        frozen : (N,) bool, optional
        n_rotations : int
            Rotations of the whole that are absent: 3, or 2 of a linear molecule.

        Returns
        -------
        Freedom
            3 for each atom that moves, less 3 for the momentum and less the rotations; a single
            atom keeps its 3. With frozen atoms nothing of the whole is conserved.
        """
        if frozen is not None and bool(frozen.any()):
            movable = (~frozen).to(torch.float64)[:, None]
            return cls(3 * int((~frozen).sum()), False, movable)
        if conserves_momentum and n_atoms > 1:
            return cls(3 * n_atoms - 3 - n_rotations, True)
        return cls(3 * n_atoms)

    def restrict(self, values: Tensor) -> Tensor:
        """Return per-atom vectors (N, 3), zero on frozen atoms."""
        return values if self.movable is None else values * self.movable


def center_velocity(velocities: Tensor, masses: Tensor) -> Tensor:
    """Velocity of the centre of mass, (3,)."""
    return (masses[:, None] * velocities).sum(0) / masses.sum()


def maxwell_boltzmann(
    masses: Tensor, temperature_K: float, seed: int, frozen: Tensor | None = None
) -> Tensor:
    """Velocities (N, 3) in Å/fs, drawn at a temperature, with zero total momentum.

    Each component is normal with variance ``kT / m``; the velocity of the centre of mass is then
    taken away, so that 3 N - 3 degrees of freedom are at ``temperature_K`` on average. A single
    atom keeps its velocity. Frozen atoms get none, and then the others keep theirs.

    Parameters
    ----------
    masses : (N,) float64, amu
    temperature_K : float
    seed : int
    frozen : (N,) bool, optional
    """
    noise = random.normals(seed, range(1), len(masses), masses.device, stream=random.VELOCITIES)[0]
    scale = torch.sqrt(BOLTZMANN_EV_K * temperature_K / (AMU_A2_FS2_EV * masses))
    velocities = scale[:, None] * noise
    if frozen is not None and bool(frozen.any()):
        return velocities * (~frozen).to(torch.float64)[:, None]
    if len(masses) == 1:
        return velocities
    return velocities - center_velocity(velocities, masses)


def without_rotation(positions: Tensor, velocities: Tensor, masses: Tensor) -> Tensor:
    r"""Velocities (N, 3) of zero angular momentum about the centre of mass.

    The rotation of a rigid body with the same angular momentum is taken away:
    :math:`v_i - \omega \times r_i` with :math:`I \omega = L`.

    Parameters
    ----------
    positions : (N, 3), Å
    velocities : (N, 3), Å/fs
    masses : (N,), amu
    """
    arms = positions - (masses[:, None] * positions).sum(0) / masses.sum()
    momentum = torch.linalg.cross(arms, masses[:, None] * velocities).sum(0)
    inertia = _inertia(arms, masses)
    # A linear molecule has no inertia about its axis, and no angular momentum either.
    turning = torch.linalg.pinv(inertia, rtol=_LINEAR, hermitian=True) @ momentum
    rotation: Tensor = torch.linalg.cross(turning.expand_as(arms), arms)
    return velocities - rotation


def count_rotations(positions: Tensor, masses: Tensor) -> int:
    """How many ways a free body of atoms can turn: 0 for an atom, 2 for a line, else 3."""
    arms = positions - (masses[:, None] * positions).sum(0) / masses.sum()
    moments = torch.linalg.eigvalsh(_inertia(arms, masses))
    return int((moments > _LINEAR * moments.max()).sum())


def _inertia(arms: Tensor, masses: Tensor) -> Tensor:
    squares = (masses * arms.square().sum(1)).sum()
    eye = torch.eye(3, dtype=arms.dtype, device=arms.device)
    return squares * eye - arms.T @ (masses[:, None] * arms)
