"""What must not change, or change in a known way, when a structure is written differently."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.spatial.transform import Rotation

from md_gie.check.subject import Numbers, Subject, evaluate
from md_gie.check.table import Row
from md_gie.structure import Structure

_ROUNDING = 1e-9  # of the largest force, or of 1: float64, sums in another order
_AXES = "abc"


def check_symmetries(subject: Subject) -> Iterator[Row]:
    """Compare a structure with itself turned, shifted, reordered, wrapped and repeated."""
    structure, engine = subject.structure, subject.precise
    n_atoms = len(structure)
    exact = evaluate(engine, structure)
    rng = np.random.default_rng(1)

    turn = Rotation.from_quat(rng.normal(size=4)).as_matrix()
    turned = replace(structure, positions=structure.positions @ turn, cell=structure.cell @ turn)
    numbers = evaluate(engine, turned)
    back = Numbers(
        numbers.energy, numbers.forces @ turn.T, turn @ numbers.virial @ turn.T, exact[3]
    )
    yield _compare("rotation turns forces and stress along", exact, back)

    shifted = replace(structure, positions=structure.positions + rng.normal(scale=3.0, size=3))
    yield _compare("translation changes nothing", exact, evaluate(engine, shifted))

    order = np.roll(np.arange(n_atoms), max(1, n_atoms // 3))  # no atom keeps its place
    permuted = replace(
        structure,
        numbers=structure.numbers[order],
        positions=structure.positions[order],
        masses=structure.masses[order],
        velocities=None,
    )
    numbers = evaluate(engine, permuted)
    forces = np.empty_like(numbers.forces)
    forces[order] = numbers.forces
    reordered = Numbers(numbers.energy, forces, numbers.virial, exact[3])
    yield _compare("the order of atoms does not matter", exact, reordered)

    if structure.pbc.any():
        yield _wrapped(subject, exact, rng)
        yield _repeated(subject, exact)
    else:
        for name in ("whole lattice vectors change nothing", "a supercell is so many cells"):
            yield Row.skipped(name, "no periodic axis")


def _wrapped(subject: Subject, exact: Numbers, rng: np.random.Generator) -> Row:
    structure = subject.structure
    boxes = rng.integers(-3, 4, size=(len(structure), 3)) * structure.pbc
    moved = replace(structure, positions=structure.positions + boxes @ structure.cell)
    return _compare("whole lattice vectors change nothing", exact, evaluate(subject.precise, moved))


def _repeated(subject: Subject, exact: Numbers) -> Row:
    structure = subject.structure
    lengths = np.where(structure.pbc, np.linalg.norm(structure.cell, axis=1), np.inf)
    axis = int(np.argmin(lengths))
    numbers = evaluate(subject.precise, repeated(structure, axis))
    first, second = np.split(numbers.forces, 2)
    worst = np.abs(np.stack([first, second]) - exact.forces).max()
    half = Numbers(
        numbers.energy / 2, exact.forces + worst, numbers.virial / 2, numbers.atomic_energies
    )
    return _compare(f"a supercell along {_AXES[axis]} is two cells", exact, half)


def repeated(structure: Structure, axis: int) -> Structure:
    """Two cells along an axis."""
    cell = structure.cell.copy()
    cell[axis] *= 2
    return Structure(
        numbers=np.tile(structure.numbers, 2),
        positions=np.concatenate([structure.positions, structure.positions + structure.cell[axis]]),
        cell=cell,
        pbc=structure.pbc,
        masses=np.tile(structure.masses, 2),
    )


def _compare(name: str, expected: Numbers, got: Numbers) -> Row:
    """Compare energy by atom, forces and virial by atom, all in units of the largest force."""
    n_atoms = len(expected.forces)
    differences = {
        "energy": abs(got.energy - expected.energy) / n_atoms,
        "forces": float(np.abs(got.forces - expected.forces).max()),
        "virial": float(np.abs(got.virial - expected.virial).max()) / n_atoms,
    }
    # What is not a number is the worst of all.
    worst = max(differences, key=lambda key: (np.isnan(differences[key]), differences[key]))
    scale = max(1.0, float(np.abs(expected.forces).max()))
    scale = max(scale, 1e-4 * abs(expected.energy) / n_atoms)
    return Row.within(name, differences[worst], _ROUNDING * scale, "eV, eV/Å", f"{worst} ")
