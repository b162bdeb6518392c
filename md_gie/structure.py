"""Structure: atoms, cell and velocities in md_gie's units; files and ASE objects."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from md_gie.errors import StructureError


@dataclass(frozen=True, eq=False)
class Structure:
    """One configuration of atoms.

    Parameters
    ----------
    numbers : (N,) int64
        Atomic numbers.
    positions : (N, 3) float64, Å
    cell : (3, 3) float64, Å
        Lattice vectors in rows; zeros are allowed on non-periodic axes.
    pbc : (3,) bool
    velocities : (N, 3) float64, Å/fs, or None
    masses : (N,) float64, amu
        Standard atomic weights if left out.
    frozen : (N,) bool
        Atoms that are to stay where they are; none if left out.

    Raises
    ------
    StructureError
        Arrays that do not fit together, or values that are not finite.
    """

    numbers: NDArray[np.int64]
    positions: NDArray[np.float64]
    cell: NDArray[np.float64]
    pbc: NDArray[np.bool_]
    velocities: NDArray[np.float64] | None = None
    masses: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    frozen: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_))

    def __post_init__(self) -> None:
        numbers = np.array(self.numbers, dtype=np.int64).reshape(-1)
        n_atoms = len(numbers)
        symbols_of(numbers)
        masses = self.masses if np.size(self.masses) else standard_masses(numbers)
        frozen = self.frozen if np.size(self.frozen) else np.zeros(n_atoms)
        fields: dict[str, Any] = {
            "numbers": numbers,
            "positions": _checked("positions", self.positions, (n_atoms, 3)),
            "cell": _checked("cell", self.cell, (3, 3)),
            "pbc": np.array(np.broadcast_to(self.pbc, 3), dtype=np.bool_),
            "masses": _checked("masses", masses, (n_atoms,)),
            "frozen": _checked("frozen", frozen, (n_atoms,)).astype(np.bool_),
        }
        if self.velocities is not None:
            fields["velocities"] = _checked("velocities", self.velocities, (n_atoms, 3))
        if (fields["masses"] <= 0).any():
            atom = int(np.flatnonzero(fields["masses"] <= 0)[0])
            raise StructureError(
                f"the mass of atom {atom} is {fields['masses'][atom]:g} amu; masses must be "
                "positive",
                atom=atom,
            )
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Chemical symbols of the atoms, in order."""
        return symbols_of(self.numbers)

    @classmethod
    def from_ase(cls, atoms: Any) -> "Structure":
        """Structure of an ``ase.Atoms``; its velocities are None if it has no momenta.

        Raises
        ------
        StructureError
            Constraints other than ``FixAtoms``, besides the errors of the class.
        """
        from ase import units
        from ase.constraints import FixAtoms

        frozen = np.zeros(len(atoms), dtype=np.bool_)
        others = {type(c).__name__ for c in atoms.constraints if type(c) is not FixAtoms}
        if others:
            names = ", ".join(sorted(others))
            raise StructureError(
                f"the structure has constraints ({names}), and md_gie can freeze atoms (FixAtoms) "
                "and nothing else; remove them, or use ASE's integrators with GIECalculator",
                constraints=names,
            )
        for constraint in atoms.constraints:
            frozen[constraint.index] = True

        # ASE's unit of time is Å sqrt(amu/eV); units.fs is one femtosecond in it.
        velocities = atoms.get_velocities() * units.fs if atoms.has("momenta") else None
        return cls(
            numbers=atoms.numbers,
            positions=atoms.positions,
            cell=atoms.cell.array,
            pbc=atoms.pbc,
            velocities=velocities,
            masses=atoms.get_masses(),
            frozen=frozen,
        )

    def to_ase(self) -> Any:
        """``ase.Atoms`` with the same atoms, cell, masses, velocities and frozen atoms."""
        import ase
        import ase.constraints

        atoms: Any = ase.Atoms(
            numbers=self.numbers,
            positions=self.positions,
            cell=self.cell,
            pbc=self.pbc,
            masses=self.masses,
        )
        if self.velocities is not None:
            atoms.set_velocities(self.velocities / ase.units.fs)
        if self.frozen.any():
            atoms.set_constraint(ase.constraints.FixAtoms(mask=self.frozen))
        return atoms


def real_array(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Copy values to float64, if they are real numbers in rows of one length.

    Parameters
    ----------
    name : str
        What the values are, for the message.
    values : array_like

    Raises
    ------
    StructureError
        Complex numbers, objects, text, or rows of different lengths.
    """
    try:
        given = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise StructureError(
            f"{name} cannot be made an array ({error}); rows of real numbers of one length are "
            "needed"
        ) from error
    if given.dtype.kind not in "biuf":
        raise StructureError(
            f"{name} are of type {given.dtype}; real numbers are needed, convert them to float64",
            dtype=str(given.dtype),
        )
    return np.array(given, dtype=np.float64)


def _checked(name: str, values: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    array = real_array(name, values)
    if array.shape != shape:
        raise StructureError(
            f"{name} have shape {array.shape}, but {shape} is needed for the given numbers",
            shape=array.shape,
        )
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = "row" if name == "cell" else "atom"
        raise StructureError(
            f"{len(bad)} values of {name} are not finite, the first at {where} {bad[0][0]}; "
            "finite numbers are needed",
            rows=np.unique(bad[:, 0]),
        )
    return array


def symbols_of(numbers: ArrayLike) -> tuple[str, ...]:
    """Chemical symbols of atomic numbers.

    Raises
    ------
    StructureError
        A number without an element.
    """
    from ase.data import chemical_symbols

    given = np.asarray(numbers)
    values = given.astype(np.int64)
    if not np.array_equal(values, given):
        atom = int(np.flatnonzero(values != given)[0])
        raise StructureError(
            f"atom {atom} has atomic number {given[atom]}; atomic numbers are whole", atoms=[atom]
        )
    wrong = np.flatnonzero((values < 1) | (values >= len(chemical_symbols)))
    if len(wrong):
        raise StructureError(
            f"atom {wrong[0]} has atomic number {values[wrong[0]]}, which is no element; "
            f"1 to {len(chemical_symbols) - 1} are possible",
            atoms=wrong,
        )
    return tuple(chemical_symbols[number] for number in values.tolist())


def standard_masses(numbers: ArrayLike) -> NDArray[np.float64]:
    """Look up standard atomic weights (N,) in amu, IUPAC's as tabulated by ASE."""
    from ase.data import atomic_masses

    masses: NDArray[np.float64] = atomic_masses[np.asarray(numbers, dtype=np.int64)].copy()
    return masses


def read_atoms(path: str | Path) -> Any:
    """Read the last configuration of a file as ``ase.Atoms``, constraints included.

    Raises
    ------
    FileNotFoundError
        No such file.
    StructureError
        The file is of an unknown format, damaged, or empty.
    """
    import ase.io

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such structure file")
    try:
        atoms = ase.io.read(path, do_not_split_by_at_sign=True)
    except Exception as error:  # parsers of many formats fail in as many ways
        reason = " ".join(str(error).split()) or type(error).__name__
        raise StructureError(
            f"{path} could not be read as a structure ({reason}); give a complete file in a "
            "format that ASE reads, with the usual name ending",
            path=path,
        ) from error
    if len(atoms) == 0:
        raise StructureError(f"{path} holds no atoms; at least one is needed", path=path)
    return atoms


def read_structure(path: str | Path) -> Structure:
    """Read the last configuration of a file, in any format that ASE knows.

    Raises
    ------
    FileNotFoundError
        No such file.
    StructureError
        The file is of an unknown format, damaged, empty, or holds values that are not finite.
    """
    atoms = read_atoms(path)
    try:
        return Structure.from_ase(atoms)
    except StructureError as error:
        raise StructureError(f"{path}: {error}", path=path, **error.data) from error


def write_structure(path: str | Path, structure: Structure) -> None:
    """Write a structure in the format that the file's name ending tells ASE.

    Raises
    ------
    ValueError
        The name ending belongs to no format that ASE writes.
    """
    import ase.io
    from ase.io.formats import UnknownFileTypeError

    try:
        ase.io.write(path, structure.to_ase())
    except UnknownFileTypeError as error:
        raise ValueError(
            f"{path}: ASE writes no format with this name ending; .extxyz keeps everything"
        ) from error


class LabelledFrame(NamedTuple):
    """One configuration with reference energy and forces.

    Attributes
    ----------
    symbols : tuple of str
        Element of each atom.
    positions : (N, 3) float64, Å
    cell : (3, 3) float64, Å
        Lattice vectors in rows.
    pbc : (bool, bool, bool)
    energy : float, eV
    forces : (N, 3) float64, eV/Å
    """

    symbols: tuple[str, ...]
    positions: NDArray[np.float64]
    cell: NDArray[np.float64]
    pbc: tuple[bool, bool, bool]
    energy: float
    forces: NDArray[np.float64]


def read_labelled_frames(path: str | Path) -> list[LabelledFrame]:
    """Read all frames of an extended XYZ file with energies and forces, plain or gzipped.

    Parameters
    ----------
    path : path
        File whose frames carry ``energy`` (eV) and ``forces`` (eV/Å).

    Raises
    ------
    StructureError
        If the file cannot be read, has no frame, or a frame lacks a label or has a number that is
        not finite; the message names file and frame.
    """
    import ase.io

    try:
        all_atoms = ase.io.read(path, index=":", format="extxyz", do_not_split_by_at_sign=True)
    except Exception as error:
        raise StructureError(
            f"{path}: cannot be read as extended XYZ ({error or type(error).__name__}); it must "
            "hold frames with energy and forces"
        ) from error
    if not all_atoms:
        raise StructureError(f"{path}: holds no frame; name a file with at least one")
    return [_labelled(atoms, f"{path}, frame {number}") for number, atoms in enumerate(all_atoms)]


def _labelled(atoms: Any, where: str) -> LabelledFrame:
    labels = {} if atoms.calc is None else atoms.calc.results
    for label in ("energy", "forces"):
        if label not in labels:
            raise StructureError(
                f"{where}: has no {label}; every frame needs energy (eV) and forces (eV/Å)"
            )
    frame = LabelledFrame(
        symbols=tuple(atoms.get_chemical_symbols()),
        positions=np.asarray(atoms.get_positions(), dtype=np.float64),
        cell=np.asarray(atoms.cell.array, dtype=np.float64),
        pbc=(bool(atoms.pbc[0]), bool(atoms.pbc[1]), bool(atoms.pbc[2])),
        energy=float(labels["energy"]),
        forces=np.asarray(labels["forces"], dtype=np.float64),
    )
    for name in ("positions", "cell", "energy", "forces"):
        if not np.isfinite(getattr(frame, name)).all():
            raise StructureError(f"{where}: {name} has a number that is not finite; leave it out")
    return frame
