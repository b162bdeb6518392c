"""Frames as ``ase.Atoms`` and back; the functions that ``ase.io`` calls for ``.h5md`` files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ase import Atoms, units
from ase.calculators.singlepoint import SinglePointCalculator
from ase.stress import full_3x3_to_voigt_6_stress, voigt_6_to_full_3x3_stress

from md_gie.errors import TrajectoryError
from md_gie.trajectory.layout import Frame, Observable, TrajectoryHeader, TrajectoryOptions
from md_gie.trajectory.reader import H5MDReader
from md_gie.trajectory.writer import H5MDWriter

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

_ENERGY = Observable("potential_energy", "eV")
_STRESS = Observable("stress", "eV Angstrom-3", (3, 3))


def to_atoms(frame: Frame, header: TrajectoryHeader) -> Atoms:
    """Return a frame as ASE holds it.

    Energy, forces and stress are results of a calculator that knows nothing else; step, time and
    the other observables are in ``info``.

    Parameters
    ----------
    frame : Frame
    header : TrajectoryHeader
    """
    atoms = Atoms(
        numbers=header.numbers,
        positions=frame.positions,
        cell=frame.cell,
        pbc=header.pbc,
        masses=header.masses,
    )
    if frame.velocities is not None:
        # ASE's unit of time is Å sqrt(amu/eV); units.fs is one femtosecond in it.
        atoms.set_velocities(np.asarray(frame.velocities, dtype=np.float64) / units.fs)
    others = dict(frame.observables)
    results: dict[str, Any] = {}
    if (energy := others.pop(_ENERGY.name, None)) is not None:
        results["energy"] = results["free_energy"] = float(energy)
    if (stress := others.pop(_STRESS.name, None)) is not None:
        results["stress"] = full_3x3_to_voigt_6_stress(np.asarray(stress))
    if frame.forces is not None:
        results["forces"] = np.asarray(frame.forces, dtype=np.float64)
    if results:
        atoms.calc = SinglePointCalculator(atoms, **results)
    atoms.info = {"step": frame.step, "time_fs": frame.time_fs}
    atoms.info |= {name: _plain(value) for name, value in others.items()}
    return atoms


def to_frame(atoms: Atoms, step: int) -> Frame:
    """Return atoms as a frame; ``step`` and a time of 0 stand in where ``info`` has none.

    Parameters
    ----------
    atoms : ase.Atoms
    step : int
    """
    results = {} if atoms.calc is None else dict(atoms.calc.results)
    observables: dict[str, Any] = {}
    if "energy" in results:
        observables[_ENERGY.name] = results["energy"]
    if "stress" in results:
        stress = np.asarray(results["stress"])
        full = stress if stress.shape == (3, 3) else voigt_6_to_full_3x3_stress(stress)
        observables[_STRESS.name] = full
    return Frame(
        step=int(atoms.info.get("step", step)),
        time_fs=float(atoms.info.get("time_fs", 0.0)),
        cell=atoms.cell.array,
        positions=atoms.positions,
        velocities=atoms.get_velocities() * units.fs if atoms.has("momenta") else None,
        forces=results.get("forces"),
        observables=observables,
    )


def header_of(atoms: Atoms) -> TrajectoryHeader:
    """Return what all frames of a trajectory of these atoms share.

    Parameters
    ----------
    atoms : ase.Atoms
    """
    a, b, c = (bool(axis) for axis in atoms.pbc)
    return TrajectoryHeader(atoms.numbers, atoms.get_masses(), (a, b, c))


def read_md_gie_h5md(filename: str | os.PathLike[str], index: int | slice = -1) -> Iterator[Atoms]:
    """Yield frames of a trajectory of md_gie; called by ``ase.io.read``.

    Parameters
    ----------
    filename : str or path
    index : int or slice

    Raises
    ------
    TrajectoryError
        As :class:`H5MDReader`.
    """
    with H5MDReader(Path(filename)) as reader:
        chosen = range(len(reader))[index]
        for number in chosen if isinstance(chosen, range) else (chosen,):
            yield to_atoms(reader[number], reader.header)


def write_md_gie_h5md(
    filename: str | os.PathLike[str], images: Sequence[Atoms] | Atoms, append: bool = False
) -> None:
    """Write atoms as a trajectory of md_gie, positions in float64; called by ``ase.io.write``.

    Parameters
    ----------
    filename : str or path
        An existing trajectory of md_gie is replaced; another file is not.
    images : ase.Atoms, or a sequence of them
        Of the same atoms, with or without momenta and results as the first.
    append : bool
        Add to the file instead of replacing it.

    Raises
    ------
    TrajectoryError
        The images differ in what they hold, or the file is in use or no trajectory of md_gie.
    """
    images = [images] if isinstance(images, Atoms) else list(images)
    path = Path(filename)
    header = header_of(images[0])
    frames = [to_frame(atoms, step) for step, atoms in enumerate(images)]
    for number, atoms in enumerate(images):
        same = np.array_equal(atoms.numbers, header.numbers)
        if not same or not np.array_equal(atoms.pbc, header.pbc):
            raise TrajectoryError(
                f"image {number} has other atoms or periodicity than the first, and a trajectory "
                "holds one system; write it to a file of its own",
                image=number,
            )
    if append and path.exists():
        writer = H5MDWriter.open_existing(path)
    else:
        first = frames[0]
        options = TrajectoryOptions(
            tuple(item for item in (_ENERGY, _STRESS) if item.name in first.observables),
            velocities=first.velocities is not None,
            forces=first.forces is not None,
            position_dtype="f8",
        )
        writer = H5MDWriter.create(path, header, options, overwrite=True)
    with writer:
        for frame in frames:
            writer.append(frame)


def _plain(value: Any) -> Any:
    array = np.asarray(value)
    return array if array.ndim else array.item()
