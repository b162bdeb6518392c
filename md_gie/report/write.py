"""From a trajectory to a report on disk."""

from pathlib import Path

from md_gie.errors import TrajectoryError
from md_gie.report.page import GENERATOR, page
from md_gie.report.study import study


def report_path(trajectory: str | Path) -> Path:
    """Return where the report of a trajectory lies unless told otherwise: beside it."""
    path = Path(trajectory)
    return path.with_name(f"{path.stem}.report.html")


def write_report(
    trajectory: str | Path,
    path: str | Path | None = None,
    *,
    overwrite: bool = False,
    of_any_run: bool = False,
) -> Path:
    """Write a report of a trajectory: one HTML file that needs no network.

    Parameters
    ----------
    trajectory : str or Path
        Written by md_gie, and not being written now.
    path : str or Path, optional
        Where to; ``NAME.report.html`` beside the trajectory if left out.
    overwrite : bool
        Replace any file there. Without it only an earlier report of the same run is replaced.
    of_any_run : bool
        Replace an earlier report of another run too.

    Returns
    -------
    Path
        Of the report.

    Raises
    ------
    TrajectoryError
        The trajectory cannot be read or holds no frame, or there is another file at ``path``.
    OSError
        The report cannot be written.
    """
    target = Path(path) if path is not None else report_path(trajectory)
    found = study(trajectory)
    if target.exists() and not overwrite:
        run_id = None if of_any_run else found.header.metadata.get("run_id", "")
        _refuse_to_replace(target, run_id)
    temporary = target.with_name(f"{target.name}.tmp")
    try:
        temporary.write_text(page(found), encoding="utf-8")
        temporary.replace(target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return target


def _refuse_to_replace(path: Path, run_id: str | None) -> None:
    with path.open(encoding="utf-8", errors="replace") as file:
        head = file.read(2000)
    ours = f'<meta name="generator" content="{GENERATOR}">' in head
    known = run_id is None or f'<meta name="run" content="{run_id}">' in head
    if not ours or not known:
        what = "the report of another run" if ours else "no report of md_gie"
        raise TrajectoryError(
            f"{path} exists and is {what}; it is not overwritten: name another file with -o, or "
            "give --overwrite",
            path=path,
        )
