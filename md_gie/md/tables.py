"""Strict reading of TOML tables into frozen dataclasses: every complaint names file, table, key."""

import dataclasses
import difflib
import math
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from md_gie.errors import ConfigError

T = TypeVar("T")

Points = tuple[tuple[float, float], ...]
"""A list of [time, value] pairs."""

_TYPE_NAMES = {
    str: "text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    Points: "a list of [time, value] pairs",
}

_LONGEST_SHOWN = 60


def bounded(
    default: Any = dataclasses.MISSING,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
) -> Any:
    """Return a dataclass field whose number must lie in a range."""
    limits = {"above": above, "at_least": at_least, "at_most": at_most, "below": below}
    return dataclasses.field(default=default, metadata=limits)


def load_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises
    ------
    FileNotFoundError
        No such file.
    ConfigError
        Not TOML; the message has line and column.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such configuration file")
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not TOML ({error})", path=path) from error
    except (ValueError, RecursionError) as error:
        # tomllib leaves to Python what it limits: digits of integers, dates, depth of nesting.
        raise ConfigError(
            f"{path}: a value cannot be read ({error}); write numbers with fewer digits, dates "
            "that exist and tables that are less nested",
            path=path,
        ) from error


def read_tables(document: Mapping[str, Any], types_: Mapping[str, type], path: Path) -> Any:
    """Read each table of a document into its dataclass.

    Parameters
    ----------
    document : mapping
        As ``tomllib`` returns it.
    types_ : mapping of table name to dataclass
    path : Path
        For messages.

    Returns
    -------
    dict of table name to an instance of its dataclass

    Raises
    ------
    ConfigError
        Unknown or missing table or key, wrong type, or a value out of range.
    """
    # A misspelt word comes first: a key that seems to be missing may be what was meant by it.
    for name, table in document.items():
        _check_names(name, table, types_, path)
    return {
        name: _read_table(document.get(name, {}), type_, path, name)
        for name, type_ in types_.items()
    }


def _check_names(name: str, table: Any, types_: Mapping[str, type], path: Path) -> None:
    if name not in types_:
        raise ConfigError(
            f"{path}, [{name}]: unknown table{_nearest(name, list(types_), '[{}]')} "
            f"Tables: {', '.join(sorted(types_))}",
            path=path,
        )
    if not isinstance(table, dict):
        raise ConfigError(
            f"{path}, {name}: {_shown(table)} where a table [{name}] is needed", path=path
        )
    known = sorted(_fields(types_[name]))
    for key in table:
        if key not in known:
            raise ConfigError(
                f"{path}, [{name}] {key}: unknown key{_nearest(key, known, '{}')} "
                f"Keys of [{name}]: {', '.join(known)}",
                path=path,
                key=key,
            )


def _fields(type_: type) -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in dataclasses.fields(typing.cast("Any", type_))}


def _read_table(table: Any, type_: type[T], path: Path, name: str) -> T:
    hints = typing.get_type_hints(type_)
    values = {}
    for key, field in _fields(type_).items():
        where = f"{path}, [{name}] {key}"
        if key in table:
            values[key] = _convert(table[key], hints[key], where)
            check_range(values[key], field.metadata, where)
        elif field.default is dataclasses.MISSING:
            raise ConfigError(
                f"{where}: missing; {_describe(hints[key])} is needed", path=path, key=key
            )
    return type_(**values)


def _nearest(word: str, known: Sequence[str], form: str) -> str:
    match = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {form.format(match[0])}?" if match else "."


def _convert(value: Any, hint: Any, where: str) -> Any:
    if isinstance(value, str) and "\0" in value:
        raise ConfigError(f"{where}: {value!r} has a null character; remove it", value=value)
    for option in _options(hint):
        if typing.get_origin(option) is Literal:
            if any(value == choice and type(value) is type(choice) for choice in _choices(option)):
                return value
        elif option == Points:
            if isinstance(value, list) and value and all(map(_is_pair, value)):
                return tuple((_to_float(x, where), _to_float(y, where)) for x, y in value)
        elif option is float and type(value) in (int, float):
            return _to_float(value, where)
        elif type(value) is option:
            return value
    raise ConfigError(f"{where}: got {_shown(value)}; {_describe(hint)} is needed", value=value)


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(type(number) in (int, float) for number in value)
    )


def _to_float(value: float, where: str) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise ConfigError(
            f"{where}: {_shown(value)} is beyond all floating-point numbers; choose a smaller one",
            value=value,
        ) from error


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python's limit to the digits of an integer
        return "a number of thousands of digits"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _options(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return tuple(option for option in typing.get_args(hint) if option is not types.NoneType)
    return (hint,)


def _choices(option: Any) -> tuple[Any, ...]:
    return typing.get_args(option)


def _describe(hint: Any) -> str:
    words: list[str] = []
    for option in _options(hint):
        if typing.get_origin(option) is Literal:
            words.extend(f'"{choice}"' for choice in _choices(option))
        else:
            words.append(_TYPE_NAMES[option])
    return " or ".join(words)


def check_range(value: Any, limits: Mapping[str, Any], where: str) -> None:
    """Compare a number, or the values of points, with the limits of a ``bounded`` field.

    None is always allowed.

    Raises
    ------
    ConfigError
        Beginning with ``where``, if it is out of range or not finite.
    """
    if value is None or not limits:
        return
    if isinstance(value, tuple):
        for _, number in value:
            check_range(number, limits, where)
        return
    above, at_least, at_most, below = map(limits.get, ("above", "at_least", "at_most", "below"))
    shown = _shown(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{where}: {shown} is not finite; a finite number is needed")
    if above is not None and not value > above:
        raise ConfigError(f"{where}: {shown} is not above {above:g}; choose a larger value")
    if at_least is not None and not value >= at_least:
        raise ConfigError(f"{where}: {shown} is below {at_least:g}, the least that is possible")
    if at_most is not None and not value <= at_most:
        raise ConfigError(f"{where}: {shown} is above {at_most:g}, the most that is possible")
    if below is not None and not value < below:
        raise ConfigError(f"{where}: {shown} is not below {below:g}; choose a smaller value")
