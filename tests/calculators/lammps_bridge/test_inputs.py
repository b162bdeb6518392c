"""The scripts of inputs/lammps, each on the builds and numbers of processes that it is for."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.calculators.lammps_bridge.conftest import ROOT, thermo_rows

pytestmark = pytest.mark.lammps

INPUTS = ROOT / "inputs" / "lammps"
CASES = [
    ("water_nvt.lmp", "program", 1),
    ("water_npt.lmp", "launcher", 1),
    ("ice_relax.lmp", "program", 1),
    ("water_hook.lmp", "launcher", 2),
]


@pytest.mark.parametrize(("name", "front", "ranks"), CASES)
def test_script_runs(name, front, ranks, request, run_process, tmp_path):
    command = request.getfixturevalue(front)
    if ranks > 1:
        command = request.getfixturevalue("parallel")(command, ranks)
    for path in INPUTS.iterdir():
        shutil.copy(path, tmp_path)
    done = run_process([*command, "-in", name, "-var", "steps", "1", "-var", "copies", "1"])
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stdout
    rows = thermo_rows(done.stdout)
    assert np.isfinite(rows[:, 1]).all()
    energies = rows[:, 2] if name != "ice_relax.lmp" else rows[:, 1]
    assert (energies < -100.0).all()
    if name == "water_npt.lmp":
        assert rows[:, 3] == pytest.approx(rows[:, 2], rel=1e-6)
        assert (tmp_path / "water_npt.dump").is_file()
    if name == "ice_relax.lmp":
        assert energies[-1] < energies[0]
        assert (tmp_path / "ice_relax.restart").is_file()


def test_every_script_is_run():
    scripts = {path.name for path in Path(INPUTS).glob("*.lmp")}
    assert scripts == {name for name, _, _ in CASES}
