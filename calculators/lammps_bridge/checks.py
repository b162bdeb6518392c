"""What a script must be like for right numbers; everything else is refused with the reason."""

import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from md_gie.calculators.lammps_bridge.api import LammpsAPI
from md_gie.calculators.lammps_bridge.settings import Settings
from md_gie.errors import ConfigError

KCAL_MOL_PER_EV = 1.602176634e-19 * 6.02214076e23 / 4184.0
"""Exact constants of the SI, and the thermochemical calorie."""

ENERGY_PER_EV = {"metal": 1.0, "real": KCAL_MOL_PER_EV}
"""Units styles that are served: both have Å, and this many units of energy in one eV."""

_FIX_LINE = re.compile(r"Fix\[\s*\d+\]:\s*(\S+?),\s*style = (\S+?),\s*group = (\S+)")
_MASS_TOLERANCE = 0.5  # amu
_ISOTOPE_MASSES = {1: (1.008, 2.014, 3.016)}


def check_units(api: LammpsAPI) -> float:
    """Units of energy in one eV; ConfigError for units that are not served."""
    units = api.text("units")
    if units not in ENERGY_PER_EV:
        raise ConfigError(
            f"units {units} are not served, only {' and '.join(ENERGY_PER_EV)}; begin the script "
            "with 'units metal'"
        )
    return ENERGY_PER_EV[units]


def check_elements(api: LammpsAPI, settings: Settings) -> None:
    """Refuse another number of elements than LAMMPS has types."""
    n_types, n_given = api.setting("ntypes"), len(settings.elements)
    if n_types != n_given:
        raise ConfigError(
            f"{n_given} elements for {n_types} types ({settings.mapping()}); give one element for "
            "each type, in the order of the types, or NULL for a type without atoms"
        )


def check_fix(api: LammpsAPI, fix: str, communicator: Any) -> None:
    """Refuse a fix that is not there, of another style, or of a group other than ``all``."""
    wanted = f"fix {fix} all external pf/callback 1 1"
    if not api.has_fix(fix):
        raise ConfigError(f"there is no fix {fix!r} to hook into; put '{wanted}' before this line")
    style, group = _fix_kinds(api, communicator).get(fix, ("", ""))
    if style != "external":
        raise ConfigError(f"fix {fix} is of style {style}; write '{wanted}'")
    if group != "all":
        raise ConfigError(
            f"fix {fix} acts on the group {group}, whose atoms alone would feel forces, while "
            f"energy and virial are of all atoms; write '{wanted}'"
        )


def _fix_kinds(api: LammpsAPI, communicator: Any) -> dict[str, tuple[str, str]]:
    """Style and group of each fix, which only LAMMPS's own report tells."""
    first = communicator is None or communicator.rank == 0
    with tempfile.TemporaryDirectory(prefix="md_gie-") as folder:
        path = Path(folder) / "fixes.txt"
        shared = str(path) if communicator is None else communicator.bcast(str(path))
        api.command(f"info fixes out overwrite {shared}")
        text = path.read_text(errors="replace") if first else ""
        if communicator is not None:
            text = communicator.bcast(text)
    found = _FIX_LINE.findall(text)
    return {name: (style, group) for name, style, group in found}


def check_integrator(api: LammpsAPI) -> None:
    """Refuse rRESPA, which would integrate these forces at a level of its own."""
    if len(api.numbers("respa_levels", 1, np.int32)):
        raise ConfigError("run_style respa is not served; write 'run_style verlet'")


def contradicting_masses(api: LammpsAPI, settings: Settings) -> list[str]:
    """Tell, in words, which types have masses that are not those of their elements."""
    from ase.data import atomic_masses

    found = []
    for number, symbol, mass in zip(
        settings.numbers(), settings.elements, api.per_type("mass"), strict=False
    ):
        expected = _ISOTOPE_MASSES.get(number, (float(atomic_masses[number]),))
        near = any(abs(mass - value) < _MASS_TOLERANCE for value in expected)
        if number > 0 and mass > 0 and not near:
            found.append(f"{symbol} has a mass of {mass:g} amu instead of {expected[0]:.3f}")
    return found
