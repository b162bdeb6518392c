"""Rewriting of scripts: where hooks are seen, and what they say."""

from pathlib import Path

import pytest

from md_gie.calculators.lammps_bridge.script import (
    Hook,
    logical_lines,
    replace_variables,
    rewrite_script,
    split_words,
)
from md_gie.errors import ConfigError


def rewrite(tmp_path: Path, text: str):
    path = tmp_path / "in.lmp"
    path.write_text(text)
    return rewrite_script(path)


def test_words_lose_quotes_and_comments():
    assert split_words("fix a all gie \"my model.pt\" 'O H' # x") == [
        "fix", "a", "all", "gie", "my model.pt", "O H"
    ]  # fmt: skip
    assert split_words('print """a "b" # c"""') == ["print", 'a "b" # c']
    assert split_words("# fix a all gie m O") == []


def test_lines_are_joined_as_lammps_does():
    text = 'a &\nb\nprint """x\ny"""\nc'
    assert list(logical_lines(text)) == ["a b", 'print """x\ny"""', "c"]


def test_hook_stops_the_script_and_goes_on_behind_it(tmp_path):
    text, hooks = rewrite(tmp_path, "units metal\nfix g all gie water-s &\n O H\nrun 0\n")
    assert hooks == [Hook("g", ("water-s", "O", "H"))]
    assert text.splitlines() == [
        "jump SELF ${gie_entry}", "label gie_start", "units metal",
        "fix g all external pf/callback 1 1", "variable gie_todo string 0", "jump SELF gie_end",
        "label gie_resume0", "run 0", "label gie_end",
    ]  # fmt: skip


def test_python_lines_are_hooks_where_they_are_invoked(tmp_path):
    text, hooks = rewrite(
        tmp_path,
        'fix g all external pf/callback 1 1\npython gie_attach input 4 SELF g m.pt "O H" format '
        'psss here "from x import gie_attach"\nrun 0\npython gie_attach invoke\nrun 1\n',
    )
    assert hooks == [Hook("g", ("m.pt", "O H"))]
    assert text.splitlines()[2:] == [
        "fix g all external pf/callback 1 1", "run 0", "variable gie_todo string 0",
        "jump SELF gie_end", "label gie_resume0", "run 1", "label gie_end",
    ]  # fmt: skip


def test_python_invoke_becomes_the_other_front(tmp_path):
    lines = (
        'fix s all external pf/callback 1 1\npython gie_invoke input 4 SELF s m "O" format psss '
        'here "import"\npython gie_invoke invoke\nfix g {} python/invoke {} post_force '
        "gie_post_force\n"
    )
    text, hooks = rewrite(tmp_path, lines.format("all", 1))
    assert hooks == [Hook("s", ("m", "O"))]
    assert "python" not in text
    for wrong in (("water", 1), ("all", 2)):
        with pytest.raises(ConfigError, match="is not served; write 'fix g all python/invoke 1"):
            rewrite(tmp_path, lines.format(*wrong))


def test_other_lines_stay_as_they_are(tmp_path):
    body = (
        'if "$a > 0" then "run 1"\npython other here "x"\nfix f all python/invoke 1 end_of_step x'
    )
    text, hooks = rewrite(tmp_path, body)
    assert hooks == []
    assert text.splitlines()[2:-1] == body.splitlines()


def test_included_files_with_hooks_are_put_in_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("hook.lmp").write_text("fix g all gie m O\n")
    Path("plain.lmp").write_text("run 0\n")
    text, hooks = rewrite(tmp_path, "include hook.lmp # here\ninclude plain.lmp\n")
    assert hooks == [Hook("g", ("m", "O"))]
    assert "include plain.lmp" in text
    assert "include hook.lmp" not in text


def test_variables_are_replaced_and_words_split_but_for_the_model():
    values = {"model": "my model.pt", "e": "O H", "x": "C"}
    words = ["${model}", "${e}", "v_e", "$x", "dtype=float64"]
    assert replace_variables(words, values.get) == [
        "my model.pt", "O", "H", "O", "H", "C", "dtype=float64"
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="uses the variable 'no', which LAMMPS does not have"):
        replace_variables(["m", "${no}"], values.get)
    with pytest.raises(ConfigError, match="immediate variable"):
        replace_variables(["m", "$(1+1)"], values.get)


def test_python_lines_without_elements_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="does not name fix, model and elements"):
        rewrite(tmp_path, 'python gie_attach input 2 SELF g format ps here "x"\n')


def test_missing_script_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no\.lmp: no such LAMMPS script"):
        rewrite_script(tmp_path / "no.lmp")
