"""The self-test passes what is right, and each of its rows fails for a flaw of its kind."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from md_gie.check import CheckReport, Row, check_structure, compiled
from md_gie.check.arithmetic import check_arithmetic
from md_gie.check.compiled import CompiledTrial
from md_gie.check.derivatives import check_derivatives
from md_gie.check.dynamics import check_dynamics
from md_gie.check.subject import Subject
from md_gie.check.symmetries import check_symmetries
from md_gie.engine import Evaluation
from md_gie.errors import SimulationError, StructureError
from md_gie.structure import Structure

MODEL = Path(__file__).parents[1] / "data" / "dpa4" / "p1_version10.pt"
Check = Callable[..., CheckReport]
Spoil = Callable[[Callable[..., Evaluation]], None]


def failed(report: CheckReport) -> set[str]:
    return {row.name for row in report.rows if row.passed is False}


@pytest.fixture(scope="module")
def good(check: Check) -> CheckReport:
    return check()


def test_a_good_potential_passes(good: CheckReport) -> None:
    assert failed(good) == set()
    assert good.passed
    skipped = {row.name for row in good.rows if row.passed is None}
    assert skipped <= {"eager equals compiled", "the CPU gives what the GPU gives"}
    assert len(good.rows) == 16


def test_the_table_says_what_was_measured(good: CheckReport) -> None:
    text = str(good)
    assert text.startswith("8 atoms with p1_version10, float32 on cpu\n")
    assert "checks passed (all passed" in text.splitlines()[-1]
    assert sum(line.startswith("pass  ") for line in text.splitlines()) == sum(
        row.passed is True for row in good.rows
    )
    assert "forces are minus the energy's gradient" in text


def test_a_failure_is_counted() -> None:
    rows = (Row("a", True, ""), Row("b", False, ""), Row.skipped("c", "none"))
    report = CheckReport("title", rows, 1.0)
    assert not report.passed
    assert "1 of 3 checks passed (1 failed, 1 not applicable)" in str(report)
    assert Row.within("x", float("nan"), 1.0, "eV").passed is False


Part = Callable[[Subject], Iterator[Row]]
RUN: Part = partial(check_dynamics, timestep_fs=0.1, temperature_K=300.0)
GRADIENT = "forces are minus the energy's gradient"
REPEATS = "a second call gives the same bits"

# What is wrong, the part that ought to see it, and the rows that fail.
FLAWS: dict[str, tuple[Callable[[Evaluation, Any], Evaluation], Part, set[str]]] = {
    "forces too large by a thousandth": (
        lambda found, edges: found._replace(forces=1.001 * found.forces),
        check_derivatives,
        {GRADIENT},
    ),
    "virial of the wrong sign": (
        lambda found, edges: found._replace(virial=-found.virial),
        check_derivatives,
        {"stress is the energy's derivative by strain"},
    ),
    "a force from nowhere": (
        lambda found, edges: found._replace(forces=found.forces + 0.01),
        check_derivatives,
        {GRADIENT, "forces add up to zero"},
    ),
    "nothing but nan": (
        lambda found, edges: found._replace(energy=found.energy * torch.nan),
        check_derivatives,
        {GRADIENT, "stress is the energy's derivative by strain"},
    ),
    "a preferred direction": (
        lambda found, edges: found._replace(
            energy=found.energy + 0.01 * edges.vectors[:, 0].square().sum()
        ),
        check_symmetries,
        {"rotation turns forces and stress along"},
    ),
    "a preferred atom": (
        lambda found, edges: found._replace(
            energy=found.energy + 0.01 * edges.vectors[: int(edges.row_ptr[1])].square().sum()
        ),
        check_symmetries,
        {"the order of atoms does not matter", "a supercell along a is two cells"},
    ),
    "forces without a number": (
        lambda found, edges: found._replace(forces=found.forces * torch.nan),
        check_symmetries,
        {"translation changes nothing", "whole lattice vectors change nothing"},
    ),
    "friction": (
        lambda found, edges: found._replace(forces=found.forces + 20.0 * found.forces.sign()),
        RUN,
        {"dynamics conserves energy"},
    ),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_flaws_are_found(crystal: Structure, spoil: Spoil, flaw: str) -> None:
    change, part, expected = FLAWS[flaw]
    spoil(change)
    rows = part(Subject(crystal, str(MODEL), device="cpu", compiles=False))
    assert {row.name for row in rows if row.passed is False} >= expected


def test_noise_is_found(crystal: Structure, spoil: Spoil) -> None:
    generator = torch.Generator().manual_seed(1)

    def shake(found: Evaluation, edges: Any) -> Evaluation:
        noise = torch.randn(found.forces.shape, generator=generator, dtype=torch.float64)
        return found._replace(forces=found.forces + 0.1 * noise)

    spoil(shake)
    subject = Subject(crystal, str(MODEL), device="cpu", compiles=False)
    names = {row.name for row in check_arithmetic(subject) if row.passed is False}
    assert {REPEATS, "float32 is close to float64"} <= names
    names = {row.name for row in RUN(subject) if row.passed is False}
    assert "ASE and md-gie run go the same way" in names


def test_an_error_on_the_way_is_a_row_that_failed(check: Check, spoil: Spoil) -> None:
    calls = 0

    def fail_later(found: Evaluation, edges: Any) -> Evaluation:
        nonlocal calls
        calls += 1
        if calls > 40:
            raise SimulationError("a force is not finite")
        return found

    spoil(fail_later)
    report = check()
    rows = {row.name: row.text for row in report.rows if row.passed is False}
    assert rows["dynamics can be evaluated"] == "a force is not finite"


SPOILED = """
import sys; import numpy as np; from md_gie.check.compiled import run; run(sys.argv[1])
path = sys.argv[1] + "/results.npz"
results = dict(np.load(path)); results["b_forces"] = 1.01 * results["b_forces"]
np.savez(path, **results)
"""
BROKEN = "raise RuntimeError('no compiler')"
SOUND = compiled._CHILD


@pytest.mark.parametrize("child", [SOUND, SPOILED, BROKEN], ids=["sound", "spoiled", "broken"])
def test_a_compiled_engine_is_compared(
    crystal: Structure, monkeypatch: pytest.MonkeyPatch, child: str
) -> None:
    monkeypatch.setattr(compiled, "_CHILD", child)
    # The eager engine stands in for the compiled one, which takes a minute to compile.
    with CompiledTrial(Subject(crystal, str(MODEL), device="cpu"), mode=False) as trial:
        row = trial.row()
    assert row.passed == (child is SOUND)
    assert row.text.endswith("RuntimeError: no compiler") == (child is BROKEN)


def test_a_trial_that_is_left_ends(crystal: Structure) -> None:
    with CompiledTrial(Subject(crystal, str(MODEL), device="cpu")) as trial:
        pass
    assert trial._process is not None
    assert trial._process.returncode != 0


def test_structures_without_periodicity(check: Check, crystal: Structure) -> None:
    report = check(replace(crystal, pbc=np.full(3, False)), dtype="float64")
    assert report.passed
    skipped = {row.name: row.text for row in report.rows if row.passed is None}
    assert skipped["whole lattice vectors change nothing"] == "no periodic axis"
    assert skipped["float32 is close to float64"] == "the engine works in float64"


def test_too_long_a_timestep_fails(check: Check) -> None:
    names = failed(check(timestep_fs=3.0))
    assert any("dynamics" in name for name in names)


def test_what_cannot_be_evaluated_is_no_failure(crystal: Structure, check: Check) -> None:
    with pytest.raises(StructureError, match="does not know"):
        check(replace(crystal, numbers=np.full(8, 79)))
    with pytest.raises(FileNotFoundError):
        check_structure(crystal, "no-such-model")
