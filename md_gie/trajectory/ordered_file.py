"""A file that HDF5 writes through, in an order in which every moment leaves a readable file."""

from __future__ import annotations

import bisect
import contextlib
import io
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_NODE = b"TREE"  # first bytes of the nodes of an index of chunks
_LEVEL = 5  # offset in a node: 0 for leaves


class OrderedFile(io.FileIO):
    """File object for h5py, which puts what HDF5 flushes in a safe order.

    HDF5 flushes its metadata by address. When the index of a dataset grows a level, the root that
    was rewritten comes first, then the nodes it points to, last the superblock with the new end
    of file: a process killed in between leaves indices that lead nowhere, also to frames of
    earlier commits. Here, writes to what the last flush left are held back until HDF5 flushes:

    1. What lies beyond the former end goes out at once: nothing leads to it yet.
    2. The superblock: the end of file takes in what is new.
    3. Other blocks, back to front: newer blocks lie further back, and older ones refer to them.
    4. Nodes of indices that have a former state, upper levels first: a node that was split is
       cut short when its parent leads to the other half.

    Each block is one call of the system, so that a kill falls between two of them. If the disk
    fails, all stays as the last call left it; HDF5 is not told, since it cannot close after that.

    Parameters
    ----------
    path : Path
    mode : str
        As of :class:`io.FileIO`, such as ``"xb+"`` or ``"rb+"``.
    fsync : bool
        Force each flush to the disk; what is new before what leads to it.

    Attributes
    ----------
    failure : OSError or None
        Of the disk; nothing was written since. :meth:`close` raises it.

    Notes
    -----
    No space that was freed may be used again before the file was opened anew.
    See :func:`without_interrupt` for Ctrl-C.
    """

    def __init__(self, path: Path, mode: str, *, fsync: bool = False) -> None:
        super().__init__(path, mode)
        self.fsync = fsync
        self.failure: OSError | None = None
        self._held: dict[int, bytes] = {}
        self._starts: list[int] = []
        self._end: int | None = None
        self._settled = os.fstat(self.fileno()).st_size

    def write(self, data: Any) -> int:
        """Write a block now or, if it replaces something, at the next flush."""
        start = self.tell()
        if start >= self._settled:
            self._attempt(self._write_whole, data)
        else:
            self._hold(start, bytes(data))
        self.seek(start + len(data))
        return len(data)

    def readinto(self, buffer: Any) -> int:
        """Read as if nothing were held back, and zeros beyond the end of the file."""
        start = self.tell()
        view = np.frombuffer(buffer, np.uint8)
        view[super().readinto(buffer) :] = 0
        for other in self._overlapping(start, len(view)):
            block = np.frombuffer(self._held[other], np.uint8)
            first, last = max(start, other), min(start + len(view), other + len(block))
            view[first - start : last - start] = block[first - other : last - other]
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Lengthen the file now, or shorten it at the next flush."""
        size = self.tell() if size is None else size
        self._end = size if size < self._settled else None
        if self._end is None:
            self._attempt(super().truncate, size)
        return size

    def flush(self) -> None:
        """Write what was held back; HDF5 calls it when it has written all that it had."""
        if self.fsync:
            self._attempt(os.fsync, self.fileno())
        for start in sorted(self._held, key=self._rank):
            self.seek(start)
            self._attempt(self._write_whole, self._held[start])
        self._held.clear()
        self._starts.clear()
        if self._end is not None:
            self._attempt(super().truncate, self._end)
            self._end = None
        if self.fsync:
            self._attempt(os.fsync, self.fileno())
        self._settled = os.fstat(self.fileno()).st_size

    def close(self) -> None:
        """Write what was held back, and close.

        Raises
        ------
        OSError
            If the disk failed at any time.
        """
        if not self.closed:
            self.flush()
            super().close()
            if self.failure is not None:
                raise self.failure

    def _attempt(self, operation: Callable[..., Any], *arguments: Any) -> None:
        """Do something with the disk, unless it failed before."""
        if self.failure is None:
            try:
                operation(*arguments)
            except OSError as error:
                self.failure = error

    def _hold(self, start: int, data: bytes) -> None:
        # A block of the same start may have grown into what another one holds.
        if any(other != start for other in self._overlapping(start, len(data))) or len(
            self._held.get(start, b"")
        ) > len(data):
            self.flush()
        if start not in self._held:
            bisect.insort(self._starts, start)
        self._held[start] = data

    def _rank(self, start: int) -> tuple[int, int]:
        block = self._held[start]
        if start == 0:
            return 0, 0
        if block.startswith(_NODE):
            self.seek(start)
            if super().read(len(_NODE)) == _NODE:
                return 2, -block[_LEVEL]
        return 1, -start

    def _overlapping(self, start: int, size: int) -> list[int]:
        """Return starts of held blocks, none of which overlap, that share bytes with a range."""
        first = max(bisect.bisect_right(self._starts, start) - 1, 0)
        last = bisect.bisect_left(self._starts, start + size)
        return [
            other for other in self._starts[first:last] if other + len(self._held[other]) > start
        ]

    def _write_whole(self, data: Any) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[super().write(rest) :]


@contextlib.contextmanager
def without_interrupt() -> Iterator[None]:
    """Let Ctrl-C wait for the end of a block: HDF5 would take its exception for a failing disk."""
    former = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(former):
        yield
        return
    caught: list[Any] = []
    signal.signal(signal.SIGINT, lambda *arguments: caught.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
        if caught:
            former(*caught[0])
