"""LAMMPS scripts with hooks, rewritten so that a LAMMPS without Python stops at each of them.

LAMMPS itself parses and runs the rewritten script: loops, variables, ``if``, ``jump`` and
``include`` are its own. At a hook the script jumps to its end; the caller attaches the potential
and starts it again, behind the hook.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from md_gie.errors import ConfigError

ENTRY, TODO = "gie_entry", "gie_todo"
"""Variables: label to start from; number of the hook that waits, or ``none``."""
START = "gie_start"

_FUNCTIONS = ("gie_attach", "gie_invoke")
_WORD = re.compile(r'"""(.*?)"""|"([^"]*)"|\'([^\']*)\'|([^\s"\'#]+)|(#)', re.DOTALL)
_INCLUDE = re.compile(r"^\s*include\s+([^\s$]+)\s*(?:#.*)?$")
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w)|(\$\()")
_MAX_DEPTH = 10


class Hook(NamedTuple):
    """A place where a potential is attached.

    Attributes
    ----------
    fix : str
        ID of the fix external.
    words : tuple of str
        Model, elements and options; variables are not yet replaced.
    """

    fix: str
    words: tuple[str, ...]


def split_words(line: str) -> list[str]:
    """Words of a command, without quotes and comment."""
    words = []
    for match in _WORD.finditer(line):
        if match[5]:
            break
        words.append(next(group for group in match.groups() if group is not None))
    return words


def logical_lines(text: str) -> Iterator[str]:
    """Lines of a script, joined over ``&`` and triple quotes as LAMMPS does."""
    pending = ""
    for line in text.splitlines():
        pending += line
        if pending.count('"""') % 2:
            pending += "\n"
        elif pending.rstrip().endswith("&"):
            pending = pending.rstrip()[:-1]
        else:
            yield pending
            pending = ""
    if pending:
        yield pending


def rewrite_script(path: Path) -> tuple[str, list[Hook]]:
    """Rewrite a script.

    Returns
    -------
    (str, list of Hook)
        The script; before it is executed, the variables :data:`ENTRY` and :data:`TODO` must be
        set. Hooks are numbered from 0.

    Raises
    ------
    ConfigError
        A hook that lacks words, or acts on a group or at steps that are not served.
    FileNotFoundError
        No such script.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such LAMMPS script")
    body, hooks = [f"jump SELF ${{{ENTRY}}}", f"label {START}"], list[Hook]()
    defined: dict[str, Hook] = {}
    for line in _with_includes(path):
        words = split_words(line)
        hook = None
        if _is_hook_fix(words):
            hook = Hook(words[1], tuple(words[4:]))
            body.append(f"fix {words[1]} {words[2]} external pf/callback 1 1")
        elif _is_definition(words):
            defined[words[1]] = _defined_hook(words)
            continue
        elif words[:1] == ["python"] and words[1:] in [[name, "invoke"] for name in defined]:
            hook = defined[words[1]]
        elif _is_invoke_fix(words):
            _check_invoke_fix(words)
            continue
        if hook is None:
            body.append(line)
            continue
        number = len(hooks)
        hooks.append(hook)
        body += [f"variable {TODO} string {number}", "jump SELF gie_end", f"label {resume(number)}"]
    return "\n".join([*body, "label gie_end", ""]), hooks


def resume(number: int) -> str:
    """Label behind hook ``number``."""
    return f"gie_resume{number}"


def replace_variables(words: Sequence[str], value: Callable[[str], str | None]) -> list[str]:
    """Replace ``${name}``, ``$n`` and ``v_name`` in the words of a hook, and split the result.

    The first word, the model, is not split.
    """

    def lookup(name: str) -> str:
        found = value(name)
        if found is None:
            raise ConfigError(f"the hook uses the variable {name!r}, which LAMMPS does not have")
        return found

    def one(match: re.Match[str]) -> str:
        if match[3]:
            raise ConfigError(
                "the hook has an immediate variable $(...), which md_gie does not evaluate; "
                "define a string variable and write ${name}"
            )
        return lookup(match[1] or match[2])

    replaced = [
        lookup(word[2:]) if word.startswith("v_") else _VARIABLE.sub(one, word) for word in words
    ]
    return [*replaced[:1], *(part for word in replaced[1:] for part in word.split())]


def _with_includes(path: Path, depth: int = 0) -> Iterator[str]:
    """Lines of a script; files with hooks are put in place of the lines that include them."""
    for line in logical_lines(path.read_text()):
        match = _INCLUDE.match(line)
        if match and depth < _MAX_DEPTH and _has_hook(Path(match[1])):
            yield from _with_includes(Path(match[1]), depth + 1)
        else:
            yield line


def _has_hook(path: Path) -> bool:
    if not path.is_file():
        return False
    lines = [split_words(line) for line in logical_lines(path.read_text())]
    return any(_is_hook_fix(words) or _is_definition(words) for words in lines)


def _is_hook_fix(words: list[str]) -> bool:
    return words[:1] == ["fix"] and words[3:4] == ["gie"]


def _is_definition(words: list[str]) -> bool:
    return (
        words[:1] == ["python"]
        and words[1:2] != []
        and (words[1] in _FUNCTIONS and words[2:3] == ["input"])
    )


def _is_invoke_fix(words: list[str]) -> bool:
    return (
        words[:1] == ["fix"]
        and words[3:4] == ["python/invoke"]
        and (words[5:7] == ["post_force", "gie_post_force"])
    )


def _check_invoke_fix(words: list[str]) -> None:
    if words[2] != "all" or words[4] != "1":
        raise ConfigError(
            f"'{' '.join(words)}' is not served; write 'fix {words[1]} all python/invoke 1 "
            "post_force gie_post_force'"
        )


def _defined_hook(words: list[str]) -> Hook:
    count = int(words[3]) if words[3:4] and words[3].isdigit() else 0
    inputs = words[4 : 4 + count]
    if len(inputs) < 4 or inputs[0] != "SELF":
        raise ConfigError(
            f"'{' '.join(words[:4])} ...' does not name fix, model and elements; write 'python "
            f'{words[1]} input 4 SELF FIX MODEL "El1 El2 ..." format psss here "..."\''
        )
    return Hook(inputs[1], tuple(inputs[2:]))
