"""Make a periodic box of liquid water: ``python scripts/make_water_box.py 64 water.extxyz``.

Rigid molecules with random orientations start on a jittered cubic lattice and are moved by
Metropolis Monte Carlo under the TIP3P water model until they are a liquid. The same seed gives the
same box.

TIP3P: Jorgensen, Chandrasekhar, Madura, Impey and Klein, J. Chem. Phys. 79, 926 (1983),
doi:10.1063/1.445869. Electrostatics without a lattice sum: Fennell and Gezelter, J. Chem. Phys.
124, 234104 (2006), doi:10.1063/1.2206581 (damped shifted force).
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc

from md_gie.structure import Structure, write_structure
from md_gie.units import BOLTZMANN_EV_K

Array = NDArray[np.float64]

BOND, ANGLE = 0.9572, np.radians(104.52)  # Å
CHARGES = np.array([-0.834, 0.417, 0.417])
KCAL_MOL = 0.0433641153  # eV
DEPTH, SIZE = 0.1521 * KCAL_MOL, 3.15061  # eV, Å; between oxygens
COULOMB = 14.3996454  # eV Å / e²
DAMPING = 0.2  # 1/Å
AVOGADRO, MOLAR_MASS = 6.02214076e23, 18.01528
TOO_CLOSE = {"OO": 2.4, "OH": 1.5, "HH": 1.6}  # Å, between molecules


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("molecules", type=int)
    parser.add_argument("output", type=Path)
    parser.add_argument("--density", type=float, default=0.997, help="g/cm³")
    parser.add_argument("--temperature", type=float, default=330.0, help="K")
    parser.add_argument("--sweeps", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    rng = np.random.default_rng(options.seed)
    volume = options.molecules * MOLAR_MASS / AVOGADRO / options.density * 1e24
    length = round(volume ** (1 / 3), 3)
    water = place(options.molecules, length, rng)
    anneal(water, length, options.temperature, options.sweeps, rng)
    write(options.output, water, length)


def template() -> Array:
    """One molecule (3, 3), O H H, with the oxygen at the origin."""
    half = ANGLE / 2
    arms = [[np.sin(half), np.cos(half), 0.0], [-np.sin(half), np.cos(half), 0.0]]
    return BOND * np.array([[0.0, 0.0, 0.0], *arms])


def rotation(axis: Array, angle: float) -> Array:
    """Rotation matrix about a unit axis (Rodrigues)."""
    x, y, z = axis
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def random_axis(rng: np.random.Generator) -> Array:
    axis = rng.normal(size=3)
    return axis / np.linalg.norm(axis)


def place(n: int, length: float, rng: np.random.Generator) -> Array:
    """Molecules (n, 3, 3) on a jittered lattice, each turned until it is clear of the others."""
    side = int(np.ceil(n ** (1 / 3) - 1e-9))
    sites = np.array([[i, j, k] for i in range(side) for j in range(side) for k in range(side)])
    chosen = rng.permutation(side**3)[:n]
    spacing = length / side
    placed = np.empty((0, 3, 3))
    for site in sites[chosen]:
        for _ in range(10_000):
            centre = (site + 0.5) * spacing + rng.normal(scale=0.05 * spacing, size=3)
            turned = template() @ rotation(random_axis(rng), rng.uniform(0, 2 * np.pi)).T
            if clear(turned + centre, placed, length):
                placed = np.concatenate([placed, (turned + centre)[None]])
                break
        else:
            raise SystemExit(f"molecule {len(placed)} finds no place; choose a lower density")
    return placed


def separations(molecule: Array, others: Array, length: float) -> Array:
    """Distances (n, 3, 3) between atoms of a molecule and of others; molecules stay whole."""
    shift = np.round((others[:, 0] - molecule[0]) / length) * length
    vectors = (others - shift[:, None])[:, None] - molecule[None, :, None]
    return np.sqrt((vectors**2).sum(-1))


def clear(molecule: Array, others: Array, length: float) -> bool:
    r = separations(molecule, others, length)
    limits = np.full((3, 3), TOO_CLOSE["HH"])
    limits[0, :] = limits[:, 0] = TOO_CLOSE["OH"]
    limits[0, 0] = TOO_CLOSE["OO"]
    return bool((r > limits).all())


def energy(molecule: Array, others: Array, length: float) -> float:
    """Energy of a molecule with others, eV, between molecules closer than half the box."""
    cutoff = length / 2
    r = separations(molecule, others, length)
    near = r[:, 0, 0] < cutoff
    r = r[near]
    s6 = (SIZE / r[:, 0, 0]) ** 6
    edge = erfc(DAMPING * cutoff) / cutoff
    slope = (
        edge / cutoff + 2 * DAMPING / np.sqrt(np.pi) * np.exp(-((DAMPING * cutoff) ** 2)) / cutoff
    )
    damped = erfc(DAMPING * r) / r - edge + slope * (r - cutoff)
    coulomb = COULOMB * (np.outer(CHARGES, CHARGES) * damped).sum()
    return float(4 * DEPTH * (s6 * s6 - s6).sum() + coulomb)


def anneal(
    water: Array, length: float, temperature: float, sweeps: int, rng: np.random.Generator
) -> None:
    """Metropolis Monte Carlo in place, cooled to the temperature over the first half."""
    n = len(water)
    stride, turn = 0.15, 0.3
    for sweep in range(sweeps):
        hot = max(0.0, 1 - 2 * sweep / sweeps)
        kT = BOLTZMANN_EV_K * temperature * (1 + hot)
        accepted = 0
        for index in range(n):
            others = np.delete(water, index, axis=0)
            old = water[index]
            oxygen = old[0] + rng.uniform(-stride, stride, size=3)
            matrix = rotation(random_axis(rng), rng.uniform(-turn, turn))
            new = oxygen + (old - old[0]) @ matrix.T
            change = energy(new, others, length) - energy(old, others, length)
            if change <= 0 or rng.random() < np.exp(-change / kT):
                water[index] = new
                accepted += 1
        # Steps are tuned while it cools, and fixed once it samples.
        if sweep < sweeps // 2:
            factor = 1.02 if accepted > 0.4 * n else 0.98
            stride, turn = min(0.5, stride * factor), min(1.0, turn * factor)


def write(path: Path, water: Array, length: float) -> None:
    """Write whole molecules, with the oxygens in the box."""
    home = water - np.floor(water[:, :1] / length) * length
    numbers = np.tile([8, 1, 1], len(water))
    pbc = np.full(3, True)
    write_structure(path, Structure(numbers, home.reshape(-1, 3), np.eye(3) * length, pbc))


if __name__ == "__main__":
    main()
