"""A failing force call ends the run of a program: at its step, on every rank, with the reason."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from md_gie.calculators.lammps_bridge.launcher import python_path
from tests.calculators.lammps_bridge.conftest import SMOKE, thermo_rows

pytestmark = pytest.mark.lammps

SCRIPT = """\
units metal
atom_modify map array
read_data {data}
pair_style none
fix gie all external pf/callback 1 1
python gie_attach input 4 SELF gie {model} "O H C dtype=float64" format psss here &
  "from md_gie.calculators.lammps_bridge import gie_attach"
python gie_attach invoke
velocity all create 30.0 1
fix move all nve
timestep 0.0001
thermo 1
thermo_style custom step pe etotal press
dump frames all custom 1 frames.dump id x y z
restart 5 state.1 state.2
run {steps}
print "reached the end"
"""

# Imported by every Python when it starts: the eighth evaluation, of step 7, fails on the last rank.
FAULT = """\
import os
import torch
import md_gie.engine.step as eager

made = eager.forces_from_edges
calls = 0
last = os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "{rank}")) == "{rank}"

def failing(gradient, edges):
    global calls
    calls += 1
    if calls == 8 and last:
        {fault}
    return made(gradient, edges)

eager.forces_from_edges = failing
"""
FAULTS = {
    "exception": ("raise RuntimeError('broken on purpose')", "broken on purpose"),
    "nan": ("return made(gradient, edges) * float('nan')", "that is not finite for 8 atoms"),
    "memory": ("raise torch.OutOfMemoryError('no memory left')", "no memory left"),
}
LAST_STEP = 6


@pytest.fixture
def script(make_atoms, write_data, tmp_path) -> Callable[[int], str]:
    """Write the script for a number of steps; its name."""

    def write(steps: int) -> str:
        data = write_data(make_atoms("cubic", 8))
        (tmp_path / "in.lmp").write_text(SCRIPT.format(data=data, model=SMOKE, steps=steps))
        return "in.lmp"

    return write


def install_fault(folder: Path, kind: str, rank: int) -> str:
    """Write the module that every Python imports when it starts; PYTHONPATH with its folder."""
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(FAULT.format(fault=FAULTS[kind][0], rank=rank))
    return f"{site}{os.pathsep}{python_path()}"


def frames(folder: Path) -> list[int]:
    """Steps of the frames that were written."""
    text = (folder / "frames.dump").read_text()
    return [int(frame.split()[0]) for frame in text.split("ITEM: TIMESTEP\n")[1:]]


@pytest.mark.parametrize(
    ("front", "ranks", "kind"),
    [
        ("launcher", 1, "nan"),
        ("launcher", 1, "memory"),
        ("program", 2, "exception"),
        ("launcher", 2, "exception"),
    ],
)
def test_failing_force_call(front, ranks, kind, request, script, run_process, tmp_path):
    command = request.getfixturevalue(front)
    if ranks > 1:
        command = request.getfixturevalue("parallel")(command, ranks)
    path = install_fault(tmp_path, kind, ranks - 1)
    done = run_process([*command, "-in", script(100)], PYTHONPATH=path)
    assert done.returncode != 0
    assert f"LAMMPS ends at step {LAST_STEP + 1}: " in done.stderr
    assert FAULTS[kind][1] in done.stderr
    assert thermo_rows(done.stdout)[:, 0].max() == LAST_STEP
    assert frames(tmp_path) == list(range(LAST_STEP + 1))
    assert (tmp_path / "state.1").is_file()
    assert "reached the end" not in done.stdout


def test_mistake_in_the_hook_ends_the_program(program, script, run_process, tmp_path):
    name = script(1)
    text = (tmp_path / name).read_text().replace('"O H C dtype', '"O Si C dtype')
    (tmp_path / name).write_text(text)
    done = run_process([*program, "-in", name])
    assert done.returncode == 2
    message = "p0_smoke does not know Si (type 1 = O, type 2 = Si, type 3 = C); it knows O, H, C"
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "reached the end" not in done.stdout
