"""The compiled engine against the eager one, compiled by a process of its own beside other work."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch

from md_gie.check.arithmetic import compare
from md_gie.check.subject import Numbers, Subject, evaluate
from md_gie.check.table import Row
from md_gie.engine import load_potential
from md_gie.structure import Structure

NAME = "eager equals compiled"
_CHILD = "import sys; from md_gie.check.compiled import run; run(sys.argv[1])"
_SETTINGS, _STRUCTURE, _RESULTS = "settings.json", "structure.npz", "results.npz"


class CompiledTrial:
    """Compiles inside a ``with`` block, and is asked for its row at the end.

    Parameters
    ----------
    subject : Subject
    mode : bool or str
        What the engine's ``compile`` is to be.
    """

    def __init__(self, subject: Subject, mode: bool | str = True) -> None:
        self._subject, self._mode = subject, mode
        self._folder = tempfile.TemporaryDirectory()
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        folder, subject = Path(self._folder.name), self._subject
        if not subject.compiles:
            return self
        settings = {**subject.settings, "model": subject.model, "compile": self._mode}
        (folder / _SETTINGS).write_text(json.dumps(settings))
        atoms = subject.structure
        np.savez(
            folder / _STRUCTURE,
            numbers=atoms.numbers, positions=atoms.positions, cell=atoms.cell, pbc=atoms.pbc,
        )  # fmt: skip
        # It shares the cores with this process, whose threads would wait for each other.
        threads = {"OMP_NUM_THREADS": str(max(1, torch.get_num_threads() // 2))}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(folder)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=threads | os.environ,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.communicate()
        self._folder.cleanup()

    def row(self) -> Row:
        """Wait for the process; what it found against the eager engine."""
        if self._process is None:
            return Row.skipped(NAME, "left out")
        _, said = self._process.communicate()
        if self._process.returncode != 0:
            lines = said.strip().splitlines() or [f"status {self._process.returncode}"]
            return Row(NAME, False, f"cannot be compiled: {lines[-1]}")
        own = evaluate(self._subject.engine, self._subject.structure)
        with np.load(Path(self._folder.name) / _RESULTS) as found:
            results = [
                Numbers(*(found[f"{call}_{key}"] for key in Numbers._fields)) for call in "ab"
            ]
        rows = [compare(NAME, result, own) for result in results]
        return next((row for row in rows if not row.passed), rows[-1])


def run(folder: str) -> None:
    """Compile and evaluate twice in the process: the first call compiles, the next runs that."""
    settings: dict[str, Any] = json.loads((Path(folder) / _SETTINGS).read_text())
    with np.load(Path(folder) / _STRUCTURE) as atoms:
        structure = Structure(*(atoms[name] for name in ("numbers", "positions", "cell", "pbc")))
    engine = load_potential(settings.pop("model"), **settings)
    results = {
        f"{call}_{key}": value
        for call in "ab"
        for key, value in evaluate(engine, structure)._asdict().items()
    }
    np.savez(Path(folder) / _RESULTS, **results)
