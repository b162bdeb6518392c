"""Restart files: the complete state of a run in two rotating files, each written atomically."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from md_gie.errors import TrajectoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

_FORMAT = 2
_PROGRAM = "md_gie"


class Restart(NamedTuple):
    """What one restart file holds.

    Attributes
    ----------
    step : int
    arrays : dict of str to array
        As they were given, bit for bit.
    facts : dict
        JSON values: what the run must agree with to go on.
    """

    step: int
    arrays: dict[str, NDArray[Any]]
    facts: dict[str, Any]


class RestartFiles:
    """Two files beside a trajectory, of which one is always whole.

    A file is written under another name, forced to the disk and renamed over the older of the
    two, so that a kill or a full disk leaves at least the newer one.

    Parameters
    ----------
    trajectory : str or Path
        ``water.h5md`` has ``water.restart-0.npz`` and ``water.restart-1.npz``.
    is_whole : callable, optional
        Tells of a file that could be read whether its content can be used; a file of which it
        says no counts as damaged.

    Attributes
    ----------
    damaged : list of Path
        The files that :meth:`latest` found and could not use.
    """

    def __init__(
        self, trajectory: str | Path, is_whole: Callable[[Restart], bool] | None = None
    ) -> None:
        self.damaged: list[Path] = []
        self._is_whole = is_whole
        base = Path(trajectory).with_suffix("")
        self.paths = tuple(base.with_name(f"{base.name}.restart-{slot}.npz") for slot in (0, 1))
        self._next: int | None = None

    def existing(self) -> list[Path]:
        """List the files that are there."""
        return [path for path in self.paths if path.exists()]

    def refuse_foreign(self) -> None:
        """Raise TrajectoryError if a file that bears such a name is no restart file of md_gie.

        Raises
        ------
        TrajectoryError
            Naming the file; nothing is changed.
        """
        for path in self.existing():
            if not _is_ours(path):
                raise TrajectoryError(
                    f"{path} is damaged or no restart file of md_gie, and is not overwritten: move "
                    "it away, or name another trajectory",
                    path=path,
                )

    def remove(self) -> None:
        """Delete both files.

        Raises
        ------
        TrajectoryError
            If one of them is no restart file of md_gie; then neither is deleted.
        """
        self.refuse_foreign()
        for path in self.existing():
            path.unlink()

    def write(
        self, step: int, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]
    ) -> Path:
        """Replace the older file.

        Parameters
        ----------
        step : int
        arrays : mapping of str to array
        facts : mapping of str to JSON value

        Returns
        -------
        Path
            The file that now holds this state.

        Raises
        ------
        TrajectoryError
            If the disk is full or fails; the newer of the two files is intact.
        """
        if self._next is None:
            self._next = self._older_slot()
        path = self.paths[self._next]
        temporary = path.with_suffix(".tmp")
        head = json.dumps(
            {"program": _PROGRAM, "format": _FORMAT, "step": step, "facts": dict(facts)}
        )
        try:
            with temporary.open("wb") as file:
                np.savez(file, allow_pickle=False, head=np.array(head), **arrays)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            _sync_directory(path.parent)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise TrajectoryError(
                f"{path} could not be written at step {step} ({error})", path=path, step=step
            ) from error
        self._next = 1 - self._next
        return path

    def latest(self) -> Restart | None:
        """Return the newest whole restart, or None if there is no file.

        Raises
        ------
        TrajectoryError
            If there are files and none can be read.
        """
        found = {path: self._read_whole(path) for path in self.existing()}
        self.damaged = [path for path, restart in found.items() if restart is None]
        whole = [restart for restart in found.values() if restart is not None]
        if found and not whole:
            names = " and ".join(map(str, self.damaged))
            raise TrajectoryError(
                f"{names}: damaged or not restart files of this version; start the run anew",
                paths=self.damaged,
            )
        return max(whole, key=lambda restart: restart.step, default=None)

    def _older_slot(self) -> int:
        steps = [restart.step if restart else -1 for restart in map(self._read_whole, self.paths)]
        return 0 if steps[0] <= steps[1] else 1

    def _read_whole(self, path: Path) -> Restart | None:
        restart = _read(path)
        if restart is None or self._is_whole is None or self._is_whole(restart):
            return restart
        return None


def _is_ours(path: Path) -> bool:
    """Whether a file is a restart file of this or an earlier format."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            head = json.loads(str(archive["head"]))
        # The first format did not name the program.
        return head.get("program", _PROGRAM) == _PROGRAM and {"format", "step", "facts"} <= set(
            head
        )
    except Exception:  # noqa: BLE001 - see below
        return False


def _read(path: Path) -> Restart | None:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        head = json.loads(str(arrays.pop("head")))
        version, step, facts = head["format"], head["step"], head["facts"]
    # What damage makes the readers of zip, NPY and JSON raise is no part of their interfaces.
    except Exception:  # noqa: BLE001
        return None
    if version != _FORMAT or type(step) is not int or step < 0 or not isinstance(facts, dict):
        return None
    return Restart(step, arrays, facts)


def _sync_directory(folder: Path) -> None:
    # Windows cannot open folders; there the rename alone has to do.
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
