"""LAMMPS's C library interface through ctypes: the same calls for every build and version.

Nothing here imports the Python module ``lammps``: inside a ``lmp`` program, that of another build
could be found first.

References
----------
Thompson et al., LAMMPS - a flexible simulation tool, Comput. Phys. Commun. 271, 108171 (2022),
doi:10.1016/j.cpc.2021.108171; the library interface: https://docs.lammps.org/Library.html.
"""

import ctypes
from ctypes import c_char_p, c_double, c_int, c_int64, c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from md_gie.errors import ConfigError

CALLBACK = ctypes.CFUNCTYPE(None, c_void_p, c_int64, c_int, c_void_p, c_void_p, c_void_p)
"""Type of fix external's callback: pointer, step, n_own, ids, positions, forces."""

_READ, _WRITE = 0x100, 0x200  # flags of PyMemoryView_FromMemory
_ID_LENGTH = 256
_PYTHON_SETUP = "_ZN9LAMMPS_NS15FixPythonInvoke5setupEi"

_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "lammps_version": (c_int, [c_void_p]),
    "lammps_command": (c_char_p, [c_void_p, c_char_p]),
    "lammps_extract_setting": (c_int, [c_void_p, c_char_p]),
    "lammps_extract_global": (c_void_p, [c_void_p, c_char_p]),
    "lammps_extract_atom": (c_void_p, [c_void_p, c_char_p]),
    "lammps_get_mpi_comm": (c_int, [c_void_p]),
    "lammps_has_id": (c_int, [c_void_p, c_char_p, c_char_p]),
    "lammps_id_count": (c_int, [c_void_p, c_char_p]),
    "lammps_id_name": (c_int, [c_void_p, c_char_p, c_int, c_char_p, c_int]),
    "lammps_force_timeout": (None, [c_void_p]),
    "lammps_set_fix_external_callback": (None, [c_void_p, c_char_p, CALLBACK, c_void_p]),
    "lammps_fix_external_set_energy_global": (None, [c_void_p, c_char_p, c_double]),
    "lammps_fix_external_set_virial_global": (None, [c_void_p, c_char_p, c_void_p]),
    "lammps_fix_external_set_energy_peratom": (None, [c_void_p, c_char_p, c_void_p]),
    "lammps_fix_external_set_virial_peratom": (None, [c_void_p, c_char_p, c_void_p]),
}


class LammpsAPI:
    """One running LAMMPS.

    Parameters
    ----------
    handle : int, ctypes pointer or PyCapsule
        What LAMMPS hands out as its own address.
    library : ctypes.CDLL, optional
        The library it lives in; by default the process itself, which is right inside ``lmp``.

    Raises
    ------
    ConfigError
        If the library does not offer the calls that are needed.
    """

    def __init__(self, handle: Any, library: Any = None) -> None:
        # An object of our own: the module ``lammps`` sets other argument types on its one.
        own = ctypes.CDLL(None if library is None else library._name, handle=_raw(library))
        for name, (result, arguments) in _SIGNATURES.items():
            try:
                function = getattr(own, name)
            except AttributeError as error:
                raise ConfigError(
                    f"this LAMMPS does not offer {name} to its process; a build from "
                    "September 2021 or later with a shared library (cmake -D "
                    "BUILD_SHARED_LIBS=on) is needed"
                ) from error
            function.restype, function.argtypes = result, arguments
        self._library = own
        self.handle = c_void_p(_address(handle))
        self._id_type = {4: np.int32, 8: np.int64}[self.setting("tagint")]

    @property
    def version(self) -> int:
        """Date of the version as a number, such as 20210929."""
        return int(self._library.lammps_version(self.handle))

    @property
    def step(self) -> int:
        """Present step."""
        kind = {4: np.int32, 8: np.int64}[self.setting("bigint")]
        return int(self.numbers("ntimestep", 1, kind)[0])

    @property
    def calls_invoke_at_setup(self) -> bool:
        """Whether this build's ``fix python/invoke`` is called before the first step of a run."""
        return hasattr(self._library, _PYTHON_SETUP)

    def command(self, line: str) -> None:
        """Execute one command of LAMMPS's input language."""
        self._library.lammps_command(self.handle, line.encode())

    def setting(self, name: str) -> int:
        """Integer setting, such as ``ntypes``; -1 if LAMMPS does not know it."""
        return int(self._library.lammps_extract_setting(self.handle, name.encode()))

    def text(self, name: str) -> str:
        """Global text, such as ``units``."""
        pointer = self._library.lammps_extract_global(self.handle, name.encode())
        return ctypes.string_at(pointer).decode() if pointer else ""

    def numbers(self, name: str, count: int, kind: Any = np.float64) -> NDArray[Any]:
        """Global numbers (count,), such as ``boxlo``; empty if LAMMPS does not have them."""
        pointer = self._library.lammps_extract_global(self.handle, name.encode())
        return view_memory(pointer, (count if pointer else 0,), kind)

    def per_type(self, name: str) -> NDArray[np.float64]:
        """Numbers for each type (T,), such as ``mass``; empty if LAMMPS does not have them."""
        pointer = self._library.lammps_extract_atom(self.handle, name.encode())
        n_types = self.setting("ntypes")
        return view_memory(pointer, (n_types + 1 if pointer else 0,), np.float64)[1:]

    def atoms(self, name: str, count: int) -> NDArray[Any]:
        """Array (count,) or (count, 3) of the first atoms, such as ``x``; empty if there is none.

        Vectors are ``x``, ``v``, ``f``; numbers ``id``, ``type``, ``rmass``.
        """
        pointer = self._library.lammps_extract_atom(self.handle, name.encode())
        if name in ("x", "v", "f"):
            return self.rows(pointer, count, writable=name == "f")
        kind = {"id": self._id_type, "rmass": np.float64}.get(name, np.int32)
        return view_memory(pointer, (count,), kind)

    def rows(self, pointer: int | None, count: int, *, writable: bool = False) -> NDArray[Any]:
        """View (count, 3) float64 of an array of row pointers, whose rows LAMMPS keeps together."""
        if not pointer or count == 0:
            return np.zeros((0, 3))
        first = c_void_p.from_address(pointer).value
        return view_memory(first, (count, 3), np.float64, writable=writable)

    def names(self, category: str) -> list[str]:
        """IDs of all of a category: ``fix``, ``compute``, ``group``."""
        buffer = ctypes.create_string_buffer(_ID_LENGTH)
        found = []
        for number in range(self._library.lammps_id_count(self.handle, category.encode())):
            self._library.lammps_id_name(self.handle, category.encode(), number, buffer, _ID_LENGTH)
            found.append(buffer.value.decode())
        return found

    def has_fix(self, name: str) -> bool:
        """Whether there is a fix of this ID."""
        return bool(self._library.lammps_has_id(self.handle, b"fix", name.encode()))

    def stop_run(self) -> None:
        """Let the present run end before its next step."""
        self._library.lammps_force_timeout(self.handle)

    def set_callback(self, fix: str, callback: Any) -> None:
        """Register the callback of a ``fix external pf/callback``; keep it alive yourself."""
        # Newer versions take a null pointer for "there is no callback".
        self._library.lammps_set_fix_external_callback(
            self.handle, fix.encode(), callback, c_void_p(1)
        )

    def set_totals(self, fix: str, energy: float, virial: NDArray[np.float64]) -> None:
        """Set energy and virial (6,), xx yy zz xy xz yz: on every rank the sum over all ranks."""
        values = (c_double * 6)(*virial)
        call = self._library
        call.lammps_fix_external_set_energy_global(self.handle, fix.encode(), energy)
        call.lammps_fix_external_set_virial_global(self.handle, fix.encode(), values)

    def set_shares(
        self, fix: str, energies: NDArray[np.float64], virials: NDArray[np.float64] | None
    ) -> None:
        """Set energies (n_own,) and virials (n_own, 6) of this rank's atoms, in LAMMPS's order."""
        if not len(energies):
            return
        call = self._library
        call.lammps_fix_external_set_energy_peratom(self.handle, fix.encode(), energies.ctypes.data)
        if virials is None:
            return
        start, stride = virials.ctypes.data, virials.strides[0]
        rows = start + stride * np.arange(len(virials), dtype=np.uintp)
        call.lammps_fix_external_set_virial_peratom(self.handle, fix.encode(), rows.ctypes.data)

    def communicator(self) -> Any:
        """Communicator of this LAMMPS, as an object of mpi4py; None with one rank.

        Raises
        ------
        ConfigError
            If there are several ranks and mpi4py is not installed.
        """
        if self.setting("world_size") == 1:
            return None
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise ConfigError(
                f"LAMMPS runs on {self.setting('world_size')} ranks, for which md_gie needs "
                "mpi4py; install it (pip install mpi4py), or run on one rank"
            ) from error
        return MPI.Comm.f2py(self._library.lammps_get_mpi_comm(self.handle))


def view_memory(
    pointer: int | None, shape: tuple[int, ...], kind: Any, *, writable: bool = False
) -> NDArray[Any]:
    """View memory of LAMMPS as an array, without a copy; it is good until LAMMPS goes on."""
    count = int(np.prod(shape))
    if not pointer or count == 0:
        return np.zeros((0, *shape[1:]), kind)
    # A ctypes array would leave a new type behind for every size.
    view = _memory_view(pointer, count * np.dtype(kind).itemsize, _WRITE if writable else _READ)
    return np.frombuffer(view, kind).reshape(shape)


def _memory_view(pointer: int, size: int, flags: int) -> memoryview:
    make = ctypes.pythonapi.PyMemoryView_FromMemory
    make.restype, make.argtypes = ctypes.py_object, [c_void_p, ctypes.c_ssize_t, c_int]
    view: memoryview = make(pointer, size, flags)
    return view


def _address(handle: Any) -> int:
    if type(handle).__name__ == "PyCapsule":
        read = ctypes.pythonapi.PyCapsule_GetPointer
        read.restype, read.argtypes = c_void_p, [ctypes.py_object, c_char_p]
        return int(read(handle, None))
    return int(getattr(handle, "value", handle))


def _raw(library: Any) -> int | None:
    return None if library is None else int(library._handle)
