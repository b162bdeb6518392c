"""A run from its configuration: start or resume, go, and leave files that hold what was done."""

import contextlib
import sys
import uuid
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from md_gie.errors import SimulationError
from md_gie.md import checkpoint, provenance
from md_gie.md.config import RunConfig
from md_gie.md.growth import GrowthLog
from md_gie.md.headline import headline
from md_gie.md.observers import RestartObserver, ThermoTable, TrajectoryObserver, Vitals
from md_gie.md.output import (
    Saver,
    check_files,
    create_trajectory,
    open_trajectory,
    save_failed_frame,
)
from md_gie.md.progress import Progress
from md_gie.md.setup import RunParts, build_parts, first_state
from md_gie.md.signals import StopRequest
from md_gie.md.simulation import RunSummary, Simulation
from md_gie.md.state import MDState
from md_gie.md.timing import peak_memory_bytes
from md_gie.trajectory import Restart, RestartFiles


class RunOutcome(NamedTuple):
    """How a run ended.

    Attributes
    ----------
    last_step : int
    summary : RunSummary
    signal_number : int
        The signal that ended it early, 0 if none did.
    """

    last_step: int
    summary: RunSummary
    signal_number: int


def run_from_config(
    path: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    n_steps: int | None = None,
    device: str | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> RunOutcome:
    """Run molecular dynamics as a configuration file says.

    Parameters
    ----------
    path : str or Path
        TOML, see :class:`md_gie.md.RunConfig`.
    resume : bool
        Go on from the newest restart file; the trajectory is the one, bit for bit, that a run
        without interruption writes on the same machine.
    overwrite : bool
        Replace the trajectory and restart files of an earlier run.
    n_steps, device
        Instead of what the file says; ``n_steps`` counts from the start of the run.
    stdout, stderr : TextIO
        Where the table of results goes, and where progress goes.

    Raises
    ------
    MDGIEError, FileNotFoundError
        Bad input, before anything is written; or SimulationError when the state is no longer
        physical, after everything written so far was committed and the offending frame saved.
    """
    stdout, stderr = stdout or sys.stdout, stderr or sys.stderr
    config = RunConfig.load(path).with_overrides(n_steps=n_steps, device=device)
    files = RestartFiles(config.trajectory_file, checkpoint.is_whole)
    restart = check_files(config, files, resume=resume, overwrite=overwrite)
    if restart is not None and files.damaged:
        stderr.write(f"{files.damaged[0]} is damaged; going on from step {restart.step}\n")
    parts = build_parts(config)
    stderr.writelines(f"{note}\n" for note in parts.start.notes)
    stderr.write("first evaluation; after an installation it compiles kernels, up to a minute\n")
    stderr.flush()
    facts = provenance.shared_facts(config, parts)
    with contextlib.ExitStack() as stack:
        stop = stack.enter_context(StopRequest())
        if restart is None:
            run_id = uuid.uuid4().hex
            state = first_state(parts)
            # First, so that a kill in between leaves no restart files of another trajectory.
            files.remove()
            writer = create_trajectory(config, parts, run_id, overwrite=overwrite)
        else:
            run_id = restart.facts["run_id"]
            state = _resume(restart, parts, facts, stderr)
            writer = open_trajectory(config, parts, restart)
        stack.enter_context(writer)
        saver = Saver(writer, files, parts, facts | {"run_id": run_id})
        return _go(config, parts, state, saver, stop, stdout, stderr, observe_first=restart is None)


def _go(
    config: RunConfig,
    parts: RunParts,
    state: MDState,
    saver: Saver,
    stop: StopRequest,
    stdout: TextIO,
    stderr: TextIO,
    *,
    observe_first: bool,
) -> RunOutcome:
    first, last = state.step, config.md.n_steps
    earlier_builds = parts.forces.cache.n_builds if first else 0
    stderr.write(headline(config, parts, first))
    progress = Progress(first, last, stderr)
    output = config.output
    observers = (
        ThermoTable(
            parts.meter, output.thermo_every, lambda line: progress.write_above(line, stdout)
        ),
        TrajectoryObserver(saver.writer, parts.meter),
        RestartObserver(saver.save, output.restart_every),
        GrowthLog(
            parts.forces,
            parts.engine.device,
            lambda line: progress.write_above(line, stderr),
        ),
    )
    simulation = Simulation(
        state,
        parts.integrator,
        parts.forces,
        parts.meter,
        observers,
        parts.clock,
        config.guards,
    )
    if observe_first:
        simulation.observe()
    parts.clock.reset()
    start = parts.meter.vitals(state).conserved_eV

    def report(state: MDState, vitals: Vitals) -> None:
        if progress.due(state.step):
            drift = 1000.0 * (vitals.conserved_eV - start) / len(state.masses)
            progress.update(state.step, vitals.temperature_K, drift)

    try:
        simulation.run(last, report, lambda: stop.signal_number)
    except SimulationError as error:
        raise _with_failed_frame(error, simulation, config, parts, saver) from error
    finally:
        progress.close()
    saver.save(simulation.state)
    summary = _summarize(simulation, parts, simulation.state.step - first, earlier_builds)
    saver.writer.record_summary({"last_step": simulation.state.step, **summary.facts()})
    stdout.write(f"{summary.line()}\n")
    return RunOutcome(simulation.state.step, summary, stop.signal_number)


def _resume(restart: Restart, parts: RunParts, facts: dict[str, Any], stderr: TextIO) -> MDState:
    source = f"the restart file of step {restart.step}"
    checkpoint.check_same_run(restart.facts, facts, source)
    before, now = restart.facts["surroundings"], provenance.surroundings(parts)
    changed = [
        f"{name} {before.get(name)} -> {now[name]}" for name in now if before.get(name) != now[name]
    ]
    if changed:
        stderr.write(f"resumed under other conditions, so not bit for bit: {', '.join(changed)}\n")
    return checkpoint.unpack(restart, parts.forces.cache, parts.engine.device)


def _summarize(
    simulation: Simulation, parts: RunParts, n_steps: int, earlier_builds: int
) -> RunSummary:
    return RunSummary(
        n_steps=n_steps,
        n_atoms=len(parts.structure),
        n_edges=parts.forces.n_edges,
        n_builds=parts.forces.cache.n_builds - earlier_builds,
        milliseconds=simulation.milliseconds(n_steps),
        timestep_fs=parts.integrator.timestep_fs,
        peak_bytes=peak_memory_bytes(parts.engine.device),
    )


def _with_failed_frame(
    error: SimulationError, simulation: Simulation, config: RunConfig, parts: RunParts, saver: Saver
) -> SimulationError:
    count = saver.writer.commit()
    text = f"{error}. {config.trajectory_file} holds {count} sound frames"
    if simulation.failed is not None:
        text += save_failed_frame(simulation.failed, config, parts)
    return SimulationError(text, **error.data)
