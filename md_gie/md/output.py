"""Files of a run: trajectory, restart files, and the frame at which it failed."""

from pathlib import Path

import numpy as np
import torch

from md_gie.errors import ConfigError, TrajectoryError
from md_gie.md import checkpoint, provenance
from md_gie.md.config import RunConfig
from md_gie.md.observers import OBSERVABLES, to_numpy
from md_gie.md.setup import RunParts
from md_gie.md.state import MDState
from md_gie.trajectory import (
    Frame,
    Observable,
    Restart,
    RestartFiles,
    TrajectoryHeader,
    TrajectoryOptions,
    formats,
)
from md_gie.trajectory.layout import elements


class Saver:
    """Commits the trajectory, then writes the restart file that counts on it.

    Parameters
    ----------
    writer : TrajectoryWriter
    files : RestartFiles
    parts : RunParts
    facts : dict
        What a continuation must share, and the run's name.
    """

    def __init__(
        self,
        writer: formats.TrajectoryWriter,
        files: RestartFiles,
        parts: RunParts,
        facts: dict[str, object],
    ) -> None:
        self.writer = writer
        self._files = files
        self._parts = parts
        self._facts = facts
        self._saved = -1

    def save(self, state: MDState) -> None:
        """Make a state the one that ``--resume`` goes on from."""
        if state.step == self._saved:
            return
        cache = self._parts.forces.cache
        facts = self._facts | {
            "n_frames": self.writer.commit(),
            "n_bath": len(state.bath),
            "n_builds": cache.n_builds,
            "surroundings": provenance.surroundings(self._parts),
        }
        self._files.write(state.step, checkpoint.pack(state, cache), facts)
        self._saved = state.step


def check_files(
    config: RunConfig, files: RestartFiles, *, resume: bool, overwrite: bool
) -> Restart | None:
    """Look at the files of a run before any heavy work; return the restart file's content if asked.

    Raises
    ------
    ConfigError
        The trajectory's folder does not exist.
    TrajectoryError
        There is nothing to resume, or there are files and ``overwrite`` is false, or the file to
        overwrite is not a trajectory.
    """
    trajectory = config.trajectory_file
    if not trajectory.parent.is_dir():
        raise ConfigError(
            f"{config.path}, [output] trajectory: there is no folder {trajectory.parent}; make it, "
            "or name another"
        )
    formats.refuse_options(trajectory, _options(config, OBSERVABLES))
    if resume:
        restart = files.latest()
        if restart is None:
            raise TrajectoryError(
                f"there is no restart file {files.paths[0]} to resume from; run without --resume"
            )
        return restart
    existing = [path for path in (trajectory, *files.paths) if path.exists()]
    if existing and not overwrite:
        raise TrajectoryError(
            f"{existing[0]} exists: go on with --resume, replace it with --overwrite, or name "
            "another [output] trajectory",
            path=existing[0],
        )
    if trajectory.exists():
        formats.refuse_to_replace(trajectory)
    files.refuse_foreign()
    return None


def create_trajectory(
    config: RunConfig, parts: RunParts, run_id: str, *, overwrite: bool
) -> formats.TrajectoryWriter:
    """Start the trajectory of a run, with everything that tells how it was made."""
    options = _options(config, parts.meter.observables)
    metadata = provenance.trajectory_metadata(config, parts, run_id)
    header = _header(parts, metadata)
    return formats.create_trajectory(config.trajectory_file, header, options, overwrite=overwrite)


def trajectory_bytes(config: RunConfig, parts: RunParts) -> int:
    """Return what the run's trajectory takes, without compression and bookkeeping."""
    options = _options(config, parts.meter.observables)
    last, cadences = config.md.n_steps, options.cadences()
    entries = {stream: last // every + 1 for stream, every in cadences.items()}
    table = elements(len(parts.structure), options)
    return sum(element.frame_bytes * entries[element.stream] for element in table)


def _options(config: RunConfig, observables: tuple[Observable, ...]) -> TrajectoryOptions:
    output = config.output
    return TrajectoryOptions(
        observables,
        velocities=output.velocities_every != 0,
        forces=output.forces_every != 0,
        frames_every=output.trajectory_every,
        velocities_every=output.velocities_every or None,
        forces_every=output.forces_every or None,
        observables_every=output.observables_every,
        position_dtype=output.position_dtype,
        force_unit=output.force_unit,
        compression=output.compression,
    )


def _header(parts: RunParts, metadata: dict[str, str]) -> TrajectoryHeader:
    structure = parts.structure
    x, y, z = (bool(periodic) for periodic in structure.pbc)
    assert structure.masses is not None
    return TrajectoryHeader(structure.numbers, structure.masses, (x, y, z), metadata)


def open_trajectory(
    config: RunConfig, parts: RunParts, restart: Restart
) -> formats.TrajectoryWriter:
    """Open the trajectory of a run to go on after a restart file's step; later frames are dropped.

    Raises
    ------
    TrajectoryError
        If it is missing, damaged, in use, or of another run.
    """
    path = config.trajectory_file
    with formats.read_trajectory(path) as reader:
        count = int(np.searchsorted(reader.steps, restart.step, side="right"))
        same = reader.header.metadata.get("run_id") == restart.facts["run_id"]
    if not same or count != restart.facts["n_frames"]:
        raise TrajectoryError(
            f"{path} is not the trajectory that the restart file of step {restart.step} belongs "
            f"to: {'it is shorter' if same else 'it comes from another run'}; put the right file "
            "there, or start a new run",
            path=path,
        )
    options = _options(config, parts.meter.observables)
    return formats.continue_trajectory(path, options, last_step=restart.step)


def save_failed_frame(state: MDState, config: RunConfig, parts: RunParts) -> str:
    """Write the state that a run stopped at, without forces, and tell where, as part of a sentence.

    A state that is not finite is not written, and neither is one whose file's name is taken by
    anything but an earlier frame of this kind: then the text is empty or tells why.
    """
    if not bool(torch.isfinite(state.positions).all() & torch.isfinite(state.velocities).all()):
        return ""
    path = config.failed_frame_file
    frame = Frame(
        state.step,
        parts.meter.time_fs(state),
        to_numpy(state.cell),
        to_numpy(state.positions),
        to_numpy(state.velocities),
    )
    options = TrajectoryOptions(forces=False, position_dtype="f8")
    # The failure of the run must be told, whatever becomes of its last frame.
    try:
        _refuse_to_replace_run(path)
        header = _header(parts, {})
        with formats.create_trajectory(path, header, options, overwrite=True) as writer:
            writer.append(frame)
    except (TrajectoryError, OSError) as error:
        return f", the one that failed is not saved ({error})"
    return f", {path} the one that failed"


def _refuse_to_replace_run(path: Path) -> None:
    if path.is_file() and path.stat().st_size:
        with formats.read_trajectory(path) as reader:
            run = reader.header.metadata.get("run_id")
        if run is not None:
            raise TrajectoryError(f"{path} is the trajectory of run {run}", path=path)
