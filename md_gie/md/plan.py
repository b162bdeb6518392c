"""What a configuration would do: checked like a run, tried for a few steps, nothing written."""

import sys
import time
from pathlib import Path
from typing import TextIO

from md_gie.md.config import RunConfig
from md_gie.md.headline import headline
from md_gie.md.observers import Vitals
from md_gie.md.output import check_files, trajectory_bytes
from md_gie.md.progress import clock_time
from md_gie.md.setup import RunParts, build_parts, first_state
from md_gie.md.simulation import Simulation
from md_gie.md.state import MDState
from md_gie.md.timing import peak_memory_bytes
from md_gie.trajectory import RestartFiles

_TRIAL_STEPS = 5
_TRIAL_SECONDS = 20.0
_MS_PER_DAY = 86.4e6
_FS_PER_NS = 1e6


def plan_from_config(
    path: str | Path,
    *,
    overwrite: bool = False,
    n_steps: int | None = None,
    device: str | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> None:
    """Say what a run would do, how fast, and what it would take; write no file.

    The structure is evaluated once, and up to five steps are made to be timed.

    Parameters
    ----------
    path, overwrite, n_steps, device, stdout, stderr
        As in :func:`md_gie.md.run_from_config`.

    Raises
    ------
    MDGIEError, FileNotFoundError
        What would keep the run from starting, or stop it within these steps.
    """
    stdout, stderr = stdout or sys.stdout, stderr or sys.stderr
    config = RunConfig.load(path).with_overrides(n_steps=n_steps, device=device)
    files = RestartFiles(config.trajectory_file)
    check_files(config, files, resume=False, overwrite=overwrite)
    parts = build_parts(config)
    stdout.write(headline(config, parts, 0))
    stdout.writelines(f"{note}\n" for note in parts.start.notes)
    stderr.write("trial steps; after an installation they compile kernels, up to a minute\n")
    stderr.flush()
    stdout.writelines(f"{line}\n" for line in (_speed(config, parts), *_sizes(config, parts)))
    stdout.write("dry run: no file was written\n")


def _speed(config: RunConfig, parts: RunParts) -> str:
    simulation = Simulation(
        first_state(parts),
        parts.integrator,
        parts.forces,
        parts.meter,
        (),
        parts.clock,
        config.guards,
    )
    # The first step may still compile or allocate.
    simulation.run(1, _report_nothing, lambda: False)
    start = time.perf_counter()
    simulation.run(
        1 + _TRIAL_STEPS, _report_nothing, lambda: time.perf_counter() - start > _TRIAL_SECONDS
    )
    n_steps = simulation.state.step - 1
    step_ms = 1000.0 * (time.perf_counter() - start) / n_steps
    ns_per_day = config.md.timestep_fs * _MS_PER_DAY / (step_ms * _FS_PER_NS)
    whole = clock_time(step_ms * config.md.n_steps / 1000.0)
    return (
        f"speed: {step_ms:.2f} ms/step over {n_steps} trial steps, {parts.forces.n_edges} edges; "
        f"{ns_per_day:.3g} ns/day; {config.md.n_steps} steps in about {whole}, writing not counted"
    )


def _report_nothing(state: MDState, vitals: Vitals) -> None:
    del state, vitals


def _sizes(config: RunConfig, parts: RunParts) -> tuple[str, str]:
    peaks = peak_memory_bytes(parts.engine.device)
    memory = ", ".join(f"{name} {size / 2**20:.0f} MiB" for name, size in peaks.items())
    n_frames = config.md.n_steps // config.output.trajectory_every + 1
    size = trajectory_bytes(config, parts) / 1e6
    return (
        f"memory: {memory or 'unknown'}, the peak of the trial",
        f"trajectory: {n_frames} frames, {size:.2f} MB uncompressed",
    )
