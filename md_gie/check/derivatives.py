"""Forces and virial against differences of the energy."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from md_gie.check.subject import Floats, Subject, evaluate
from md_gie.check.table import Row
from md_gie.structure import Structure

_MOVE_A = 1e-4
_STRAIN = 1e-5
_RELATIVE = 1e-5  # of the largest component, or of 1 where that is smaller
_N_DIRECTIONS = 2
_N_COMPONENTS = 3


def check_derivatives(subject: Subject) -> Iterator[Row]:
    """Compare forces and virial with central differences, in float64.

    Forces are looked at along random directions of all atoms and along single coordinates; the
    virial in all six components of a symmetric strain.
    """
    structure, engine = subject.structure, subject.precise
    exact = evaluate(engine, structure)
    rng = np.random.default_rng(0)
    errors = []
    for direction in _directions(len(structure), rng):
        energies = [
            evaluate(engine, _moved(structure, sign * _MOVE_A * direction)).energy
            for sign in (1, -1)
        ]
        slope = (energies[0] - energies[1]) / (2 * _MOVE_A)
        errors.append(abs(slope + float((exact.forces * direction).sum())))
    worst = float(np.max(errors))  # nan if one is
    limit = _RELATIVE * max(1.0, float(np.abs(exact.forces).max()))
    what = f"{_N_DIRECTIONS + _N_COMPONENTS} differences, worst "
    yield Row.within("forces are minus the energy's gradient", worst, limit, "eV/Å", what)

    errors = []
    for row, column in ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1)):
        strain = np.zeros((3, 3))
        strain[row, column] = strain[column, row] = 1.0 if row == column else 0.5
        energies = [
            evaluate(engine, _strained(structure, sign * _STRAIN * strain)).energy
            for sign in (1, -1)
        ]
        slope = (energies[0] - energies[1]) / (2 * _STRAIN)
        errors.append(abs(slope + float((exact.virial * strain).sum())))
    worst = float(np.max(errors))
    limit = _RELATIVE * max(1.0, float(np.abs(exact.virial).max()), len(structure) ** 0.5)
    name = "stress is the energy's derivative by strain"
    yield Row.within(name, worst, limit, "eV (virial)", "6 differences, worst ")

    total = float(np.abs(exact.forces.sum(0)).max())
    limit = 1e-10 * max(1.0, float(np.abs(exact.forces).sum()))
    yield Row.within("forces add up to zero", total, limit, "eV/Å", "sum ")


def _directions(n_atoms: int, rng: np.random.Generator) -> Iterator[Floats]:
    for _ in range(_N_DIRECTIONS):
        direction = rng.normal(size=(n_atoms, 3))
        yield direction / np.linalg.norm(direction)
    for _ in range(_N_COMPONENTS):
        direction = np.zeros((n_atoms, 3))
        direction[rng.integers(n_atoms), rng.integers(3)] = 1.0
        yield direction


def _moved(structure: Structure, displacement: Floats) -> Structure:
    return replace(structure, positions=structure.positions + displacement)


def _strained(structure: Structure, strain: Floats) -> Structure:
    deformation = np.eye(3) + strain
    return replace(
        structure, positions=structure.positions @ deformation, cell=structure.cell @ deformation
    )
