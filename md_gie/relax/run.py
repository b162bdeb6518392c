"""A relaxation from its configuration, ended by forces, by steps, or by what float32 can tell."""

import sys
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO, TypeAlias

import ase.io
from ase import Atoms
from ase.filters import FrechetCellFilter
from ase.optimize import BFGS, FIRE, LBFGS

from md_gie.calculators.ase_calculator import GIECalculator
from md_gie.errors import ConfigError, MDGIEError
from md_gie.relax.config import RelaxConfig, RelaxTable
from md_gie.relax.files import check_outputs
from md_gie.relax.noise import NONE, Noise, Residual, force_noise, residual_of
from md_gie.structure import read_atoms
from md_gie.units import EV_A3_GPA

Ending: TypeAlias = Literal["converged", "steps", "noise"]

_OPTIMIZERS: dict[str, Any] = {"fire": FIRE, "lbfgs": LBFGS, "bfgs": BFGS}
_STEPS_BETWEEN_NOISE = 25


class RelaxOutcome(NamedTuple):
    """How a relaxation ended.

    Attributes
    ----------
    ending : str
        ``converged``: forces, and the stress where the cell may change, are below their limits,
        in float64 too. ``steps``: there were no more. ``noise``: float32 cannot tell better.
    steps : int
    energy_eV : float
    max_force_eV_A : float
        Of atoms that may move.
    max_stress_GPa : float or None
        Largest component of the stress plus the pressure; None with a fixed cell.
    noise : Noise
        Errors of float32 at the end; zero in float64.
    """

    ending: Ending
    steps: int
    energy_eV: float
    max_force_eV_A: float
    max_stress_GPa: float | None
    noise: Noise


def relax_from_config(
    path: str | Path,
    *,
    overwrite: bool = False,
    device: str | None = None,
    stdout: TextIO | None = None,
) -> RelaxOutcome:
    """Relax a structure as a configuration file says, and write it.

    Fixed atoms and other constraints that the structure file holds are kept. What looks converged
    in float32 is looked at in float64 before it is called so; where the limit lies below what
    float32 can tell, the relaxation ends and says it.

    Parameters
    ----------
    path : str or Path
        TOML, see :class:`RelaxConfig`.
    overwrite : bool
        Replace the files of an earlier relaxation.
    device : str, optional
        Instead of what the file says.
    stdout : TextIO, optional
        Where a line for each step, and the verdict, go.

    Raises
    ------
    ConfigError
        A wrong setting, or a file that exists.
    StructureError, CheckpointError, FileNotFoundError
        Structure or model cannot be used.
    SimulationError
        A force or energy that is not finite on the way; the trajectory has the steps before.
    """
    stdout = stdout or sys.stdout
    config = RelaxConfig.load(path)
    check_outputs(config, overwrite=overwrite)
    atoms = read_atoms(config.structure_file)
    atoms.calc = _calculator(config, device, config.model.dtype)
    exact = None if config.model.dtype == "float64" else _calculator(config, device, "float64")
    if config.relax.cell != "fixed" and not atoms.pbc.all():
        raise ConfigError(
            f'{config.path}, [relax] cell: "{config.relax.cell}" needs a cell that is periodic '
            f'along all vectors, pbc is {atoms.pbc.tolist()}; take "fixed"'
        )
    outcome = _optimize(config, atoms, exact, stdout)
    ase.io.write(config.outputs["structure"], atoms)
    stdout.write(f"{_verdict(config, outcome)}\n")
    return outcome


def _calculator(config: RelaxConfig, device: str | None, dtype: str) -> GIECalculator:
    model = config.model
    try:
        return GIECalculator(
            config.model_source,
            device=device or model.device,
            dtype=dtype,
            kernels=model.kernels,
            compile=model.compile,
            tf32=model.tf32,
            skin=config.neighbors.skin_A,
            branch=model.branch,
        )
    except MDGIEError:
        raise
    except ValueError as error:
        raise ConfigError(f"{config.path}, [model]: {error}", path=config.path) from error


def _optimize(
    config: RelaxConfig, atoms: Atoms, exact: GIECalculator | None, stdout: TextIO
) -> RelaxOutcome:
    relax = config.relax
    optimizer = _OPTIMIZERS[relax.optimizer](_target(relax, atoms), logfile=None)
    stdout.write(f"{'step':>6}{'E/eV':>18}{'max F/(eV/Å)':>15}{'max σ/GPa':>13}\n")
    residual = residual_of(relax, atoms)
    # Limits are looked at here, and not by ASE, which knows none of the stress.
    for _ in optimizer.irun(fmax=0.0, steps=relax.max_steps):
        residual = residual_of(relax, atoms)
        stdout.write(_line(optimizer.nsteps, atoms, residual))
        stdout.flush()
        if (trajectory := config.outputs.get("trajectory")) is not None:
            ase.io.write(trajectory, atoms, append=optimizer.nsteps > 0)
        looks_done = residual.is_within(relax)
        if looks_done or optimizer.nsteps % _STEPS_BETWEEN_NOISE == 0:
            noise = NONE if exact is None else force_noise(atoms, exact)
            done = looks_done and (
                exact is None or residual_of(relax, atoms, exact).is_within(relax)
            )
            if done or residual.is_noise(relax, noise):
                break
    else:
        noise = NONE if exact is None else force_noise(atoms, exact)
        done = False
    ending: Ending = "converged" if done else "steps"
    if not done and residual.is_noise(relax, noise):
        ending = "noise"
    energy = float(atoms.get_potential_energy())
    return RelaxOutcome(ending, optimizer.nsteps, energy, *residual, noise)


def _target(relax: RelaxTable, atoms: Atoms) -> Any:
    if relax.cell == "fixed":
        return atoms
    return FrechetCellFilter(
        atoms,
        hydrostatic_strain=relax.cell == "volume",
        scalar_pressure=relax.pressure_GPa / EV_A3_GPA,
    )


def _line(step: int, atoms: Atoms, residual: Residual) -> str:
    stress = "" if residual.stress_GPa is None else f"{residual.stress_GPa:>13.4f}"
    energy = float(atoms.get_potential_energy())
    return f"{step:>6}{energy:>18.6f}{residual.force_eV_A:>15.5f}{stress}\n"


def _verdict(config: RelaxConfig, outcome: RelaxOutcome) -> str:
    relax, noise = config.relax, outcome.noise
    state = f"largest force {outcome.max_force_eV_A:.5f} eV/Å (limit {relax.max_force_eV_A:g})"
    if outcome.max_stress_GPa is not None:
        state += f", stress {outcome.max_stress_GPa:.4f} GPa (limit {relax.max_stress_GPa:g})"
    if noise.force_eV_A:
        state += f"; float32 is off by up to {noise.force_eV_A:.1g} eV/Å here"
    words = {
        "converged": "converged",
        "steps": "not converged",
        "noise": 'as far as float32 can tell, not converged (take [model] dtype = "float64")',
    }
    return (
        f"{words[outcome.ending]} after {outcome.steps} steps: {state}; energy "
        f"{outcome.energy_eV:.6f} eV; written to {config.outputs['structure']}"
    )
