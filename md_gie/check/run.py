"""The self-test from beginning to end."""

import time
from collections.abc import Callable, Iterator
from functools import partial

from md_gie.check.arithmetic import check_arithmetic
from md_gie.check.compiled import CompiledTrial
from md_gie.check.derivatives import check_derivatives
from md_gie.check.dynamics import check_dynamics
from md_gie.check.subject import Subject, evaluate
from md_gie.check.symmetries import check_symmetries
from md_gie.check.table import CheckReport, Row
from md_gie.errors import MDGIEError
from md_gie.structure import Structure

_HEAVY = 3  # atomic number of lithium; atoms before it need short steps
_TIMESTEPS_FS = {True: 0.5, False: 1.0}


def check_structure(
    structure: Structure,
    model: str,
    *,
    device: str = "auto",
    dtype: str = "float32",
    kernels: str = "auto",
    branch: str | None = None,
    compiles: bool = True,
    timestep_fs: float | None = None,
    temperature_K: float = 300.0,
    report: Callable[[str], None] = lambda _: None,
) -> CheckReport:
    """Test a potential on a structure; a minute or two for some hundred atoms on a CPU.

    Parameters
    ----------
    structure : Structure
        Velocities in it are used; a structure far from equilibrium needs a short timestep.
    model : str
        Name of a bundled model, or a file.
    device, dtype, kernels, branch
        As in :func:`md_gie.load_potential`.
    compiles : bool
        Whether to compare with the compiled engine too; a process of its own compiles it
        meanwhile, for one to three minutes.
    timestep_fs : float, optional
        Of runs at constant energy; by default 0.5 with hydrogen and 1 without.
    temperature_K : float
        Of velocities that are drawn where the structure has none.
    report : callable
        Told each part's name when it begins.

    Returns
    -------
    CheckReport
        Printable; ``passed`` tells whether all is well.

    Raises
    ------
    MDGIEError, FileNotFoundError, ValueError
        Nothing could be tested: no such model, a setting that does not exist, or a structure that
        the model cannot evaluate.
    """
    start = time.perf_counter()
    subject = Subject(
        structure,
        model,
        device=device,
        dtype=dtype,
        kernels=kernels,
        branch=branch,
        compiles=compiles,
    )
    if timestep_fs is None:
        timestep_fs = _TIMESTEPS_FS[bool((structure.numbers < _HEAVY).any())]
    engine = subject.engine
    parts: dict[str, Callable[[Subject], Iterator[Row]]] = {
        "derivatives": check_derivatives,
        "symmetries": check_symmetries,
        "arithmetic": check_arithmetic,
        "dynamics": partial(check_dynamics, timestep_fs=timestep_fs, temperature_K=temperature_K),
    }
    rows: list[Row] = []
    with CompiledTrial(subject) as trial:
        report("first evaluation")
        evaluate(subject.precise, structure)
        for name, part in parts.items():
            report(name)
            rows += _guarded(name, part, subject)
        report("compiled engine")
        rows.append(trial.row())
    title = (
        f"{len(structure)} atoms with {engine.name}, "
        f"{str(engine.dtype).removeprefix('torch.')} on {engine.device}"
    )
    return CheckReport(title, tuple(rows), time.perf_counter() - start)


def _guarded(
    name: str, part: Callable[[Subject], Iterator[Row]], subject: Subject
) -> Iterator[Row]:
    """Rows of a part; an error is a row that failed."""
    try:
        yield from part(subject)
    except MDGIEError as error:
        yield Row(f"{name} can be evaluated", False, str(error))
