"""``[md]`` of a run's configuration: which ensembles there are and what each needs."""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from md_gie.errors import ConfigError
from md_gie.md.schedules import Schedule
from md_gie.md.tables import Points, bounded

MOST_STEPS = 10**12
_MOST_KELVIN = 1e6
_MOST_GPA = 1e4
_FS_PER_PS = 1000.0
_LEAST_STEPS = 10  # in the time of a bath that is integrated step by step


@dataclass(frozen=True)
class MDTable:
    """``[md]``: ensemble, length and start.

    ``temperature_K`` is that of the thermostat and of initial velocities, which are drawn if the
    structure has none; ``nve`` needs it for the second purpose alone. A ramp takes the place of a
    constant: points of time in ps and value, linear between them, constant before and after.
    ``frozen_atoms`` are indices and ranges of them, both ends included: ``"0-15, 20"``.
    """

    ensemble: Literal[
        "nve",
        "nvt-langevin",
        "nvt-bussi",
        "nvt-nose-hoover",
        "npt-isotropic",
        "npt-anisotropic",
        "npt-full-cell",
    ]
    timestep_fs: float = bounded(above=0.0, at_most=100.0)
    n_steps: int = bounded(at_least=0, at_most=MOST_STEPS)
    temperature_K: float | None = bounded(None, at_least=0.0, at_most=_MOST_KELVIN)
    temperature_ramp_ps_K: tuple[tuple[float, float], ...] | None = bounded(
        None, at_least=0.0, at_most=_MOST_KELVIN
    )
    friction_per_ps: float | None = bounded(None, at_least=0.0, at_most=1e6)
    fix_center_of_mass: bool | None = None
    thermostat_fs: float | None = bounded(None, above=0.0, at_most=1e9)
    chain_length: int | None = bounded(None, at_least=1, at_most=20)
    pressure_GPa: float | None = bounded(None, at_least=-_MOST_GPA, at_most=_MOST_GPA)
    pressure_ramp_ps_GPa: tuple[tuple[float, float], ...] | None = bounded(
        None, at_least=-_MOST_GPA, at_most=_MOST_GPA
    )
    barostat_fs: float | None = bounded(None, above=0.0, at_most=1e9)
    compressibility_per_GPa: float | None = bounded(None, above=0.0, at_most=1e3)
    frozen_atoms: str = ""
    seed: int = bounded(0, at_least=0, below=2**63)

    @property
    def temperature(self) -> Schedule | None:
        """Temperature in K as a function of time in fs; None if there is none."""
        return _schedule(self.temperature_K, self.temperature_ramp_ps_K)

    @property
    def pressure(self) -> Schedule | None:
        """Pressure in GPa as a function of time in fs; None if there is none."""
        return _schedule(self.pressure_GPa, self.pressure_ramp_ps_GPa)

    @property
    def conserves_momentum(self) -> bool:
        """Whether nothing but frozen atoms changes the total momentum."""
        return self.ensemble != "nvt-langevin" or bool(self.fix_center_of_mass)

    @property
    def changes_cell(self) -> bool:
        """Whether there is a barostat."""
        return self.ensemble.startswith("npt")

    def frozen_indices(self, n_atoms: int, path: Path) -> list[int]:
        """Return the indices of frozen atoms, in order.

        Raises
        ------
        ConfigError
            Naming ``path``: text that is no list of indices, or an atom that does not exist.
        """
        where = f"{path}, [md] frozen_atoms"
        found: set[int] = set()
        for part in filter(None, (part.strip() for part in self.frozen_atoms.split(","))):
            ends = [end.strip() for end in part.split("-")]
            if len(ends) > 2 or not all(end.isascii() and end.isdigit() for end in ends):
                raise ConfigError(
                    f'{where}: "{part[:60]}" is no index; give indices and ranges, as "0-15, 20"'
                )
            # Longer numbers are no atoms, and would be slow to read.
            first, last = (int(end) if len(end) < 16 else 10**16 for end in (ends[0], ends[-1]))
            if first > last or last >= n_atoms:
                raise ConfigError(
                    f'{where}: "{part[:60]}" is not among the {n_atoms} atoms, whose indices go '
                    f"from 0 to {n_atoms - 1}; choose some of these"
                )
            found.update(range(first, last + 1))
        return sorted(found)


class _Keys(NamedTuple):
    """Keys that an ensemble cannot do without, and keys that it may have."""

    needed: tuple[str, ...] = ()
    possible: tuple[str, ...] = ()


_BAROSTAT = _Keys(
    ("temperature_K", "thermostat_fs", "pressure_GPa", "barostat_fs", "compressibility_per_GPa")
)
_KEYS = {
    "nve": _Keys(),
    "nvt-langevin": _Keys(("temperature_K", "friction_per_ps"), ("fix_center_of_mass",)),
    "nvt-bussi": _Keys(("temperature_K", "thermostat_fs")),
    "nvt-nose-hoover": _Keys(("temperature_K", "thermostat_fs"), ("chain_length",)),
    "npt-isotropic": _BAROSTAT,
    "npt-anisotropic": _BAROSTAT,
    "npt-full-cell": _BAROSTAT,
}
_RAMPS = {"temperature_K": "temperature_ramp_ps_K", "pressure_GPa": "pressure_ramp_ps_GPa"}
_SPECIFIC = (
    "friction_per_ps",
    "fix_center_of_mass",
    "thermostat_fs",
    "chain_length",
    "pressure_GPa",
    "barostat_fs",
    "compressibility_per_GPa",
)


def check_ensemble(md: MDTable, path: Path) -> None:
    """Compare the keys that are given with those of the ensemble.

    Raises
    ------
    ConfigError
        A key is missing, foreign to the ensemble, or at odds with another.
    """
    where, ensemble = f"{path}, [md]", md.ensemble
    keys = _KEYS[ensemble]
    for key, ramp in _RAMPS.items():
        if getattr(md, key) is not None and getattr(md, ramp) is not None:
            raise ConfigError(f"{where} {ramp}: {key} is given as well; keep one of the two")
    for key in keys.needed:
        if not _is_given(md, key):
            raise ConfigError(f'{where} {key}: missing; ensemble "{ensemble}" needs a number')
    for key in _SPECIFIC:
        if key not in (*keys.needed, *keys.possible) and _is_given(md, key):
            name = key if getattr(md, key) is not None else _RAMPS[key]
            raise ConfigError(
                f'{where} {name}: ensemble "{ensemble}" has no such setting; '
                "remove it, or choose another ensemble"
            )
    if ensemble == "nve" and md.temperature_ramp_ps_K is not None:
        raise ConfigError(
            f'{where} temperature_ramp_ps_K: ensemble "nve" has no thermostat to follow it; give '
            "temperature_K, or choose another ensemble"
        )
    for ramp in _RAMPS.values():
        _check_times(getattr(md, ramp), f"{where} {ramp}")
    _check_frozen(md, where)
    if md.ensemble == "nvt-nose-hoover":
        _check_slow(md, "thermostat_fs", where)
    if md.changes_cell:
        _check_slow(md, "barostat_fs", where)


def _check_slow(md: MDTable, key: str, where: str) -> None:
    least = _LEAST_STEPS * md.timestep_fs
    if getattr(md, key) < least:
        raise ConfigError(
            f"{where} {key}: {getattr(md, key):g} is below {least:g}, {_LEAST_STEPS} timesteps, "
            "and too fast to be integrated; choose a larger value"
        )


def _check_frozen(md: MDTable, where: str) -> None:
    if not md.frozen_atoms.strip():
        return
    if md.changes_cell:
        raise ConfigError(
            f'{where} frozen_atoms: ensemble "{md.ensemble}" moves all atoms with the cell; free '
            "them, or choose an ensemble at constant volume"
        )
    if md.fix_center_of_mass:
        raise ConfigError(
            f"{where} fix_center_of_mass: frozen atoms hold the system already; remove one of the "
            "two keys"
        )


def _check_times(points: Points | None, where: str) -> None:
    times = [time for time, _ in points or ()]
    if any(not 0.0 <= time < float("inf") for time in times):
        raise ConfigError(f"{where}: a time is not a number from 0 ps on; correct it")
    if any(after <= before for before, after in itertools.pairwise(times)):
        raise ConfigError(f"{where}: times must increase from point to point; put them in order")


def _is_given(md: MDTable, key: str) -> bool:
    ramp = _RAMPS.get(key)
    return getattr(md, key) is not None or (ramp is not None and getattr(md, ramp) is not None)


def _schedule(constant: float | None, points: Points | None) -> Schedule | None:
    if points is not None:
        return Schedule([(_FS_PER_PS * time, value) for time, value in points])
    return None if constant is None else Schedule.constant(constant)
