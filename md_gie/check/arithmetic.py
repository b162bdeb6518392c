"""Rounding: float32 against float64, kernels against plain PyTorch, one call against the next."""

from collections.abc import Iterator

import numpy as np
import torch

from md_gie.check.subject import Numbers, Subject, evaluate
from md_gie.check.table import Row

_ENERGY_EV = 2e-5  # by atom
_ENERGY_RELATIVE = 2e-6  # of the largest atomic energy or force
_FORCE_RELATIVE = 1e-4  # of the largest force, or of 1


def check_arithmetic(subject: Subject) -> Iterator[Row]:
    """Compare the engine that users run with others that ought to give the same."""
    exact = evaluate(subject.precise, subject.structure)
    own = evaluate(subject.engine, subject.structure)
    name = "float32 is close to float64"
    if subject.engine.dtype == torch.float32:
        yield compare(name, own, exact)
    else:
        yield Row.skipped(name, "the engine works in float64")

    again = evaluate(subject.engine, subject.structure)
    same = own.energy == again.energy and np.array_equal(own.forces, again.forces)
    text = "the same bits" if same else "other bits the second time"
    yield Row("a second call gives the same bits", same, text)

    plain = subject.load(kernels="reference", dtype="float64")
    reference = evaluate(plain, subject.structure)
    yield compare("compiled kernels equal plain PyTorch", exact, reference, tighter=1e-6)

    name = "the CPU gives what the GPU gives"
    if subject.engine.device.type == "cuda":
        cpu = evaluate(subject.load(device="cpu", dtype="float64"), subject.structure)
        yield compare(name, exact, cpu, tighter=1e-6)
    else:
        yield Row.skipped(name, "the engine is on the CPU")


def compare(name: str, got: Numbers, expected: Numbers, *, tighter: float = 1.0) -> Row:
    """Compare energy by atom and forces with what float32 may do to them, or less."""
    n_atoms = len(expected.forces)
    energy = abs(got.energy - expected.energy) / n_atoms
    difference = got.forces - expected.forces
    worst = float(np.abs(difference).max())
    noise = float(np.sqrt(np.square(difference).mean()))
    largest = float(np.abs(expected.forces).max())
    size = max(largest, float(np.abs(expected.atomic_energies).max()))
    energy_limit = tighter * max(_ENERGY_EV, _ENERGY_RELATIVE * size)
    force_limit = tighter * _FORCE_RELATIVE * max(1.0, largest)
    return Row(
        name,
        energy <= energy_limit and worst <= force_limit,
        f"forces {worst:.2g} eV/Å (rms {noise:.1g}), allowed {force_limit:.2g}; "
        f"energy {energy:.2g} eV/atom, allowed {energy_limit:.2g}",
    )
