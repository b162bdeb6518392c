"""What a script says about the potential: model, element of each type, options."""

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from md_gie.engine.guards import Limits
from md_gie.errors import ConfigError

UNUSED = "NULL"
"""Stands for the element of a type that has no atoms, as in LAMMPS's pair_coeff."""

_ISOTOPES = {"D": "H", "T": "H"}
_HALOS = ("features", "wide")
_NUMBERS = {
    "skin": "Å, such as 0.5",
    "max_temperature_K": "K, or inf",
    "max_temperature_jump_K": "K, or inf",
    "max_energy_jump_eV": "eV, or inf",
}
_OPTIONS = ("device", "dtype", "kernels", "branch", "halo", *_NUMBERS)


@dataclass(frozen=True)
class Settings:
    """Model, elements in the order of LAMMPS's types, and options.

    Parameters
    ----------
    model : str
        Name of a bundled model, or the path of a model file.
    elements : tuple of str
        Element symbol of each type; ``D`` and ``T`` mean H, ``NULL`` a type without atoms.
    device, dtype, kernels, branch
        As of :func:`md_gie.load_potential`; with several ranks and ``device = "auto"`` each rank
        takes the GPU of its number on its machine.
    skin : float, Å
        Margin of the neighbor list.
    halo : str
        What several ranks exchange: ``features`` of atoms near a border between the layers of the
        model; or only positions and forces, of a border as ``wide`` as the model reaches.
    max_temperature_K, max_temperature_jump_K, max_energy_jump_eV : float
        Where dynamics is stopped; see :class:`md_gie.engine.guards.Limits`.
    """

    model: str
    elements: tuple[str, ...]
    device: str = "auto"
    dtype: str = "float32"
    kernels: str = "auto"
    branch: str | None = None
    skin: float = 0.5
    halo: str = "features"
    max_temperature_K: float = Limits.max_temperature_K
    max_temperature_jump_K: float = Limits.max_temperature_jump_K
    max_energy_jump_eV: float = Limits.max_energy_jump_eV

    @property
    def limits(self) -> Limits:
        """Limits of the guards."""
        return Limits(self.max_temperature_K, self.max_temperature_jump_K, self.max_energy_jump_eV)

    def numbers(self) -> list[int]:
        """Atomic number of each type; 0 for a type without atoms.

        Raises
        ------
        ConfigError
            If a symbol belongs to no element; the message has the mapping.
        """
        from ase.data import atomic_numbers

        found = []
        for symbol in self.elements:
            number = atomic_numbers.get(_ISOTOPES.get(symbol, symbol), 0)
            if symbol != UNUSED and number == 0:
                raise ConfigError(
                    f"{symbol!r} is no element ({self.mapping()}); give the element of each type "
                    f"in the order of the types, or {UNUSED} for a type without atoms",
                    symbol=symbol,
                )
            found.append(0 if symbol == UNUSED else int(number))
        return found

    def mapping(self) -> str:
        """Types and elements as they were given, for messages."""
        pairs = (f"type {i} = {symbol}" for i, symbol in enumerate(self.elements, start=1))
        return ", ".join(pairs) or "no elements"


def parse_settings(words: Sequence[str]) -> Settings:
    """Read ``MODEL El1 El2 ... [option=value ...]``, the words of a script.

    Raises
    ------
    ConfigError
        If a word is missing, unknown or has an impossible value.
    """
    if not words:
        raise ConfigError(
            "the hook names no model; give MODEL El1 El2 ..., the elements in the order of the "
            "types"
        )
    given: dict[str, Any] = {}
    elements = []
    for word in words[1:]:
        name, is_option, value = word.partition("=")
        if not is_option:
            elements.append(word)
        else:
            given[name] = _option(name, value)
    return Settings(words[0], tuple(elements), **given)


def make_settings(
    model: str | os.PathLike[str], elements: str | Sequence[str], **options: Any
) -> Settings:
    """Make settings from Python: elements as ``"O H"`` or ``["O", "H"]``, options by name.

    Raises
    ------
    ConfigError
        If an option is unknown or has an impossible value.
    """
    symbols = elements.split() if isinstance(elements, str) else elements
    given = {name: _option(name, value) for name, value in options.items()}
    return Settings(os.fspath(model), tuple(symbols), **given)


def _option(name: str, value: Any) -> Any:
    if name not in _OPTIONS:
        close = difflib.get_close_matches(name, _OPTIONS, 1)
        hint = f"; did you mean {close[0]}" if close else ""
        raise ConfigError(f"there is no option {name!r}, only {', '.join(_OPTIONS)}{hint}")
    if name == "halo" and value not in _HALOS:
        raise ConfigError(f"halo = {value!r} is none of {', '.join(_HALOS)}")
    if name not in _NUMBERS:
        return value
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name} = {value!r} is no number; give {_NUMBERS[name]}") from error
    # The skin's range is checked by the neighbor list.
    if name != "skin" and not number > 0:
        raise ConfigError(f"{name} = {value!r} is not above 0; give {_NUMBERS[name]}")
    return number
