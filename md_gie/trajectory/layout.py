"""Where things lie in an md_gie trajectory: H5MD 1.1 groups, units, types and chunks.

Reference: de Buyl, Colberg and Höfling, Comput. Phys. Commun. 185, 1546 (2014),
doi:10.1016/j.cpc.2014.01.018; https://www.nongnu.org/h5md/h5md.html (version 1.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import h5py
import numpy as np

from md_gie.units import EV_KJ_MOL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

# MDAnalysis opens a topology-free file only when the particle group has this name.
PARTICLES = "particles/trajectory"
OBSERVABLES = "observables/trajectory"
PARAMETERS = "parameters/md_gie"
STEP = f"{PARTICLES}/position/step"
TIME = f"{PARTICLES}/position/time"
BOX = f"{PARTICLES}/box"
# Other programs number entries by frames, whatever their steps: what has steps of its own would be
# taken for that of other frames, and so lies where they do not look.
FINE = "md_gie/streams/observables"
COMMITTED = "md_gie/n_committed"
CHECKSUMS = "md_gie/crc32"
RUNS = "md_gie/runs"
SUMMARIES = "summaries"  # attribute of /md_gie

FORCE_FACTORS = {"kJ mol-1 Angstrom-1": EV_KJ_MOL, "eV Angstrom-1": 1.0}
"""What one eV/Å is in each force unit that a file may use."""

# Superblock 0: later superblocks carry a flag that bars a file from opening after a kill.
LIBRARY_VERSIONS = ("earliest", "v110")

_LARGEST_CHUNK = 4 * 2**20  # bytes
FRAMES = "frames"
STREAMS = (FRAMES, "velocity", "force", "observables")
"""Names of the groups of datasets that may have cadences of their own."""

RUN_FIELDS = np.dtype([("start_step", "i8"), ("time", "S32"), ("version", "S32")])


def stream_home(stream: str) -> str:
    """Group of a stream's count and checksums."""
    return "md_gie" if stream == FRAMES else f"md_gie/streams/{stream}"


def step_path(stream: str) -> str:
    """Dataset of a stream's step numbers."""
    return STEP if stream == FRAMES else f"{stream_home(stream)}/step"


def value_path(name: str, file: Any) -> str | None:
    """Dataset of velocities or forces in a file, if it has them."""
    places = (f"{PARTICLES}/{name}/value", f"{stream_home(name)}/value")
    return next((path for path in places if path in file), None)


def time_path(stream: str) -> str:
    """Dataset of a stream's times."""
    return f"{step_path(stream).removesuffix('step')}time"


@dataclass(frozen=True)
class Observable:
    """A quantity of the whole system that every frame carries.

    Parameters
    ----------
    name : str
        Group below ``/observables/trajectory``, for example ``potential_energy``.
    unit : str
        As written to the file, for example ``eV``.
    shape : tuple of int
        ``()`` for a scalar, ``(3, 3)`` for a tensor.
    """

    name: str
    unit: str
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class TrajectoryHeader:
    """What does not change along a trajectory.

    Parameters
    ----------
    numbers : (N,) int
        Atomic numbers.
    masses : (N,) float64, amu
    pbc : three bools
        Periodicity along each lattice vector.
    metadata : mapping of str to str
        Provenance (configuration, model, versions), stored as attributes of ``/parameters/md_gie``.
    """

    numbers: NDArray[np.integer[Any]]
    masses: NDArray[np.float64]
    pbc: tuple[bool, bool, bool]
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TrajectoryOptions:
    """How a trajectory is stored.

    Parameters
    ----------
    observables : tuple of Observable
    velocities, forces : bool
        Whether the file has them.
    frames_every : int, optional
        Only steps that are multiples of it make frames; any step, if left out.
    velocities_every, forces_every : int, optional
        Cadence of their own, with steps and times of their own; with every frame, if left out.
    observables_every : int, optional
        Keep observables at these steps besides those of frames.
    position_dtype : {"f4", "f8"}
        Velocities and forces are always ``f4``.
    force_unit : str
        A key of ``FORCE_FACTORS``. MDAnalysis refuses a file whose forces are in eV/Å.
    species_series : bool
        Repeat the species in every frame, 2 bytes an atom; ZnH5MD reads no other form.
    compression : {None, "gzip"}
        Of per-atom data. It saves 10 to 16 % of thermal noise and costs ten times the time.
    fsync : bool
        Force each commit to the disk, so that it survives a power failure and not only a kill.
    """

    observables: tuple[Observable, ...] = ()
    velocities: bool = True
    forces: bool = True
    frames_every: int | None = None
    velocities_every: int | None = None
    forces_every: int | None = None
    observables_every: int | None = None
    position_dtype: Literal["f4", "f8"] = "f4"
    force_unit: str = "kJ mol-1 Angstrom-1"
    species_series: bool = True
    compression: Literal["gzip"] | None = None
    fsync: bool = False

    def cadences(self) -> dict[str, int]:
        """Return the cadence of each stream of the file; 0 where the writer's caller decides."""
        own = {
            FRAMES: self.frames_every or 0,
            "velocity": self.velocities_every if self.velocities else None,
            "force": self.forces_every if self.forces else None,
            "observables": self.observables_every if self.observables else None,
        }
        found = {stream: every for stream, every in own.items() if every is not None}
        # Data that come with every frame share the steps and times of frames.
        return {
            stream: every
            for stream, every in found.items()
            if stream == FRAMES or every != self.frames_every
        }


@dataclass(frozen=True)
class Frame:
    """One configuration of a trajectory, in the units of md_gie.

    Parameters
    ----------
    step : int
    time_fs : float
    cell : (3, 3) float64, Å
        Lattice vectors in rows.
    positions : (N, 3) float, Å
    velocities : (N, 3) float, Å/fs, or None
    forces : (N, 3) float, eV/Å, or None
    observables : mapping of str to float or array
    """

    step: int
    time_fs: float
    cell: NDArray[np.float64]
    positions: NDArray[np.floating[Any]]
    velocities: NDArray[np.floating[Any]] | None = None
    forces: NDArray[np.floating[Any]] | None = None
    observables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Element:
    """A dataset that grows by one entry a frame."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    unit: str | None
    chunk: tuple[int, ...]
    compression: str | None = None
    stream: str = FRAMES

    @property
    def frame_bytes(self) -> int:
        """Bytes of one entry."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


def elements(n_atoms: int, options: TrajectoryOptions) -> tuple[Element, ...]:
    """Every growing dataset of a file, in the order in which checksums run over them."""
    cadences = options.cadences()

    def per_atom(name: str, dtype: str, unit: str) -> Element:
        parts = math.ceil(n_atoms * 3 * np.dtype(dtype).itemsize / _LARGEST_CHUNK)
        chunk = (1, math.ceil(n_atoms / parts), 3)
        stream = name if name in cadences else FRAMES
        group = f"{PARTICLES}/{name}" if stream == FRAMES else stream_home(stream)
        path = f"{group}/value"
        return Element(path, (n_atoms, 3), dtype, unit, chunk, options.compression, stream)

    # Chunks that fill gradually are rewritten, which a kill can tear if they are compressed:
    # only per-atom data, one frame a chunk, ever is.
    table = []
    for stream in cadences:
        table.append(Element(step_path(stream), (), "i8", None, (1024,), stream=stream))
        table.append(Element(time_path(stream), (), "f8", "fs", (1024,), stream=stream))
    table.append(Element(f"{BOX}/edges/value", (3, 3), "f8", "Angstrom", (256, 3, 3)))
    table.append(per_atom("position", options.position_dtype, "Angstrom"))
    if options.velocities:
        table.append(per_atom("velocity", "f4", "Angstrom fs-1"))
    if options.forces:
        table.append(per_atom("force", "f4", options.force_unit))
    if options.species_series:
        path = f"{PARTICLES}/species/value"
        table.append(Element(path, (n_atoms,), "i2", None, (1, n_atoms)))
    places = {FRAMES: OBSERVABLES} | ({"observables": FINE} if "observables" in cadences else {})
    for stream, group in places.items():
        for item in options.observables:
            chunk = (256 if item.shape else 1024, *item.shape)
            path = f"{group}/{item.name}/value"
            table.append(Element(path, item.shape, "f8", item.unit, chunk, stream=stream))
    return tuple(table)


def create_tree(file: h5py.File, header: TrajectoryHeader, options: TrajectoryOptions) -> None:
    """Write the groups, attributes and empty datasets of a new file."""
    # Readers want text attributes of variable length, which is what h5py makes of str.
    h5md = file.create_group("h5md")
    h5md.attrs["version"] = np.array([1, 1], dtype=np.int32)
    h5md.create_group("author").attrs["name"] = header.metadata.get("author", "md_gie")
    creator = h5md.create_group("creator")
    creator.attrs["name"], creator.attrs["version"] = "md_gie", version("md_gie")
    units = h5md.create_group("modules").create_group("units")
    units.attrs["version"], units.attrs["system"] = np.array([1, 0], dtype=np.int32), "SI"

    box = file.create_group(BOX)
    box.attrs["dimension"] = 3
    boundary = ["periodic" if periodic else "none" for periodic in header.pbc]
    box.attrs.create("boundary", boundary, dtype=h5py.string_dtype())
    table = elements(len(header.numbers), options)
    for element in table:
        _create_growing(file, element)
    if (path := value_path("force", file)) is not None:
        force = file[path]
        force.attrs["md_gie_unit_per_eV_Angstrom-1"] = FORCE_FACTORS[options.force_unit]

    parameters = file.create_group(PARAMETERS)
    parameters.create_dataset("numbers", data=np.asarray(header.numbers, dtype=np.int16))
    masses = parameters.create_dataset("mass", data=np.asarray(header.masses, dtype=np.float64))
    masses.attrs["unit"] = "u"
    for name, text in header.metadata.items():
        parameters.attrs[name] = text

    for stream, every in options.cadences().items():
        home = file.require_group(stream_home(stream))
        home.create_dataset("n_committed", data=np.int64(0))
        checksums = home.create_dataset("crc32", (0,), "u4", maxshape=(None,), chunks=(1024,))
        paths = [element.path for element in table if element.stream == stream]
        checksums.attrs.create("elements", paths, dtype=h5py.string_dtype())
        checksums.attrs["every"] = every
    file.create_dataset(RUNS, (0,), RUN_FIELDS, maxshape=(None,), chunks=(16,))


def _create_growing(file: h5py.File, element: Element) -> None:
    dataset = file.create_dataset(
        element.path,
        shape=(0, *element.shape),
        maxshape=(None, *element.shape),
        dtype=element.dtype,
        chunks=element.chunk,
        compression=element.compression,
        compression_opts=1 if element.compression else None,
        shuffle=True if element.compression else None,
    )
    if element.unit is not None:
        dataset.attrs["unit"] = element.unit
    group = dataset.parent
    if dataset.name.endswith("/value") and "step" not in group:
        steps, times = step_path(element.stream), time_path(element.stream)
        group["step"], group["time"] = file[steps], file[times]
