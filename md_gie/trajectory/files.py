"""Opening trajectory files: every refusal by HDF5 becomes one sentence; damage is recognised."""

from __future__ import annotations

import contextlib
import os
from typing import IO, TYPE_CHECKING, Literal

import h5py

from md_gie.errors import TrajectoryError
from md_gie.trajectory import layout
from md_gie.trajectory.ordered_file import OrderedFile
from md_gie.trajectory.streams import streams_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_ATOMIC_NUMBERS = frozenset(range(1, 119))
_LAYOUT_ERRORS = (
    AttributeError,
    IndexError,
    KeyError,
    OSError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
)

# HDF5's file lock does not hold within one process.
_written_here: set[Path] = set()


def refuse_second_writer(path: Path) -> None:
    """Raise TrajectoryError if this process is writing the file already."""
    if path.resolve() in _written_here:
        raise TrajectoryError(f"{path} is already open for writing in this process", path=path)


def claim(path: Path) -> None:
    """Note that this process writes the file."""
    _written_here.add(path.resolve())


def release(path: Path) -> None:
    """Note that this process no longer writes the file."""
    _written_here.discard(path.resolve())


def lock(path: Path) -> IO[bytes]:
    """Hold a file against other processes until what is returned is closed.

    Raises
    ------
    TrajectoryError
        If another process holds it.
    """
    file = path.open("ab")
    _lock(file, path)
    return file


def _lock(file: IO[bytes], path: Path) -> None:
    # Where the system has no such locks, as on Windows, an open file cannot be replaced anyway.
    if os.name == "posix":
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise in_use(path) from error
        except OSError:
            pass  # some network file systems have none


def in_use(path: Path) -> TrajectoryError:
    """Error of a file that another process has."""
    return TrajectoryError(
        f"{path} is in use by another process; wait for it to end, or write to another file",
        path=path,
    )


def exists_already(path: Path) -> TrajectoryError:
    """Error of a file that must not be overwritten."""
    return TrajectoryError(
        f"{path} exists and is not overwritten unasked; name another file or move it away",
        path=path,
    )


def create(path: Path, *, fsync: bool) -> tuple[OrderedFile, h5py.File]:
    """Create an HDF5 file to write, and hold it against other processes.

    Raises
    ------
    FileExistsError
    """
    disk = OrderedFile(path, "xb+", fsync=fsync)
    _lock(disk, path)
    return disk, h5py.File(disk, "w", libver=layout.LIBRARY_VERSIONS)


def open_to_write(path: Path, *, fsync: bool) -> tuple[OrderedFile, h5py.File]:
    """Open a trajectory of md_gie to write, and hold it against other processes.

    Raises
    ------
    TrajectoryError
        If it is missing, in use, not HDF5, or not written by md_gie.
    """
    _refuse_missing(path)
    disk = OrderedFile(path, "rb+", fsync=fsync)
    _lock(disk, path)
    try:
        return disk, reopen(path, disk)
    except BaseException:
        disk.close()
        raise


def reopen(path: Path, disk: OrderedFile) -> h5py.File:
    """Let HDF5 read and write anew what is held already.

    Raises
    ------
    TrajectoryError
        If it is not HDF5, or not written by md_gie.
    """
    return _open(path, disk, "r+")


def close(disk: OrderedFile, file: h5py.File) -> None:
    """Write what is left, and close both.

    Raises
    ------
    OSError, RuntimeError
        If the disk failed.
    """
    with disk:
        file.close()


def abandon(path: Path, disk: OrderedFile, file: h5py.File) -> None:
    """Close both after something failed, and let others write the file."""
    release(path)
    with contextlib.suppress(OSError, RuntimeError):
        close(disk, file)


def explain(path: Path, error: BaseException) -> None:
    """Raise TrajectoryError for what went wrong if it was the disk."""
    if isinstance(error, OSError):
        raise TrajectoryError(f"{path} cannot be written: {error}", path=path) from error


def open_to_read(path: Path) -> h5py.File:
    """Open a trajectory of md_gie.

    Raises
    ------
    TrajectoryError
        If it is missing, in use by a writer, not HDF5, or not written by md_gie.
    """
    _refuse_missing(path)
    return _open(path, path, "r")


def _refuse_missing(path: Path) -> None:
    if not path.is_file():
        raise TrajectoryError(f"{path}: no such trajectory", path=path)


def _open(path: Path, file: Path | OrderedFile, mode: Literal["r", "r+"]) -> h5py.File:
    try:
        opened = h5py.File(file, mode, libver=layout.LIBRARY_VERSIONS)
    except BlockingIOError as error:
        raise in_use(path) from error
    except PermissionError:
        raise
    except OSError as error:
        raise TrajectoryError(
            f"{path} cannot be read as HDF5 ({error}); it is damaged or another kind of file",
            path=path,
        ) from error
    try:
        _check_layout(opened, path)
    except BaseException:
        opened.close()
        raise
    return opened


def _check_layout(file: h5py.File, path: Path) -> None:
    with reading(path):
        ours = layout.COMMITTED in file and layout.CHECKSUMS in file
    if not ours:
        raise TrajectoryError(
            f"{path} is HDF5 but not a trajectory of md_gie: it has no {layout.COMMITTED}; "
            "read it with MDAnalysis or h5py",
            path=path,
        )
    with reading(path):
        streams = streams_of(file, path)
        columns = streams[layout.FRAMES].datasets
        numbers, masses = (file[f"{layout.PARAMETERS}/{name}"] for name in ("numbers", "mass"))
        shapes = {
            layout.STEP: (),
            layout.TIME: (),
            f"{layout.BOX}/edges/value": (3, 3),
            f"{layout.PARTICLES}/position/value": (len(numbers), 3),
        }
        for name, shape in shapes.items():
            entry = columns[name].dtype, columns[name].shape[1:]
            if entry[0].kind not in "iuf" or entry[1] != shape:
                raise ValueError(f"/{name} has entries of type {entry[0]}, shape {entry[1]}")
        for name, stream in streams.items():
            if not 0 <= stream.count <= stream.length:
                raise ValueError(f"{stream.count} {name} are counted and {stream.length} are there")
        if numbers.shape != masses.shape or not set(numbers[()].tolist()) <= _ATOMIC_NUMBERS:
            raise ValueError("atomic numbers or masses are wrong")
        if file[layout.RUNS].dtype.names != layout.RUN_FIELDS.names:
            raise ValueError(f"/{layout.RUNS} is not the list of starts")
        force_factor(file)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what h5py and NumPy raise over an unexpected layout into one sentence.

    Raises
    ------
    TrajectoryError
        The file looks like a trajectory of md_gie, but parts are missing or of another kind.
    """
    try:
        yield
    except TrajectoryError:
        raise
    except _LAYOUT_ERRORS as error:
        # The text of a KeyError is the repr of its message.
        reason = error.args[0] if isinstance(error, KeyError) and error.args else error
        raise TrajectoryError(
            f"{path} is not laid out as a trajectory of md_gie ({reason}); it is damaged or was "
            "changed by another program",
            path=path,
        ) from error


def refuse_to_replace(path: Path) -> None:
    """Raise TrajectoryError unless a file may be lost: empty, or a trajectory that is not in use.

    Raises
    ------
    TrajectoryError
        If it is anything else.
    """
    try:
        if not path.is_file():
            raise TrajectoryError(f"{path} is not an ordinary file")
        if path.stat().st_size:
            open_to_read(path).close()
            lock(path).close()
    except TrajectoryError as error:
        raise TrajectoryError(
            f"{error}; it is not overwritten: move it away, or write to another file", path=path
        ) from error


def reserve(disk: OrderedFile, file: h5py.File, size: int) -> None:
    """Make the disk promise ``size`` bytes beyond those used, or raise OSError before any change.

    HDF5 records a file's new end before the data are written: a disk that fills up in between
    leaves a file which no program opens. Where the system has no such call, nothing is promised.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(disk.fileno(), file.id.get_filesize(), size)


def force_factor(file: h5py.File) -> float:
    """Return what one eV/Å is in the file's force unit; 1 if it holds no forces."""
    path = layout.value_path("force", file)
    return 1.0 if path is None else layout.FORCE_FACTORS[file[path].attrs["unit"]]
