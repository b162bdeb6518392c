"""The front of ``fix python/invoke``.

The builds at hand either lack that fix or do not call it at set-up. Where forces are given, a
second fix external stands for it: LAMMPS calls that at set-up and in each step, too.
"""

import contextlib

import numpy as np
import pytest

from md_gie.calculators.lammps_bridge import attach
from md_gie.calculators.lammps_bridge.api import CALLBACK, LammpsAPI
from md_gie.calculators.lammps_bridge.invoke import InvokeBridge, find_invoke_bridge
from md_gie.calculators.lammps_bridge.settings import make_settings
from md_gie.errors import ConfigError
from tests.calculators.lammps_bridge.conftest import ELEMENTS, SMOKE

pytestmark = pytest.mark.lammps

SETTINGS = make_settings(SMOKE, ELEMENTS, dtype="float64")
RUN = "velocity all create 30.0 1\nfix move all nve\ntimestep 2e-4\nrun 6\nrun 0\nrun 4"


class Invoked:
    """LAMMPS with the two fixes, in the order given."""

    def __init__(self, lmp, order=("sums", "call")) -> None:
        self.errors: list[BaseException] = []
        self.idle = False
        for fix in order:
            lmp.command(f"fix {fix} all external pf/callback 1 1")
        api = LammpsAPI(lmp.lmp, lmp.lib)
        self.bridge = InvokeBridge(api, "sums", SETTINGS, None, self.note)
        self._callback = CALLBACK(self.call)
        api.set_callback("call", self._callback)

    def note(self, error: BaseException, step: int) -> None:
        self.errors.append(error)

    def call(self, *arguments) -> None:
        if self.idle:
            return
        try:
            self.bridge.post_force()
        except ConfigError as error:
            self.note(error, 0)


def test_dynamics_are_those_of_the_other_front(make_atoms, make_lammps, write_data):
    data = write_data(make_atoms("cubic", 8))
    plain, invoked = make_lammps(data), make_lammps(data)
    attach(plain, SMOKE, ELEMENTS, dtype="float64")
    plain.commands_string(RUN)
    fixes = Invoked(invoked)
    invoked.commands_string(RUN)
    assert fixes.errors == []
    for name in ("etotal", "press", "pe"):
        assert invoked.get_thermo(name) == pytest.approx(plain.get_thermo(name), rel=1e-12)
    one, other = (np.array(lmp.numpy.extract_atom("f")) for lmp in (plain, invoked))
    assert np.abs(one - other).max() < 1e-11


def test_minimization_is_refused(make_atoms, make_lammps, write_data):
    lmp = make_lammps(write_data(make_atoms("cubic", 8)))
    fixes = Invoked(lmp)
    fixes.idle = True  # LAMMPS does not call fix python/invoke when it minimizes
    with contextlib.suppress(Exception):  # LAMMPS itself may find the numbers useless first
        lmp.command("minimize 0 1e-3 5 10")
    message = r"^LAMMPS has not called fix python/invoke .*; use 'fix ID all external pf/callback"
    with pytest.raises(ConfigError, match=message):
        raise fixes.errors[0]


def test_wrong_order_of_the_fixes_is_refused(make_atoms, make_lammps, write_data):
    lmp = make_lammps(write_data(make_atoms("cubic", 8)))
    fixes = Invoked(lmp, order=("call", "sums"))
    lmp.command("run 0")
    with pytest.raises(ConfigError, match=r"the fix external has to come before the fix python"):
        raise fixes.errors[0]


def test_no_potential_is_refused():
    with pytest.raises(ConfigError, match=r"no potential is attached; put 'python gie_invoke inv"):
        find_invoke_bridge([])


def test_build_that_calls_it_too_late_is_refused(program, make_atoms, write_data, run_process):
    data = write_data(make_atoms("cubic", 8))
    (data.parent / "in.lmp").write_text(
        f"units metal\natom_modify map array\nread_data {data}\npair_style none\n"
        "fix sums all external pf/callback 1 1\n"
        f'python gie_invoke input 4 SELF sums {SMOKE} "O H C" format psss here '
        '"from md_gie.calculators.lammps_bridge import gie_invoke, gie_post_force"\n'
        "python gie_invoke invoke\nfix gie all python/invoke 1 post_force gie_post_force\nrun 0\n"
    )
    done = run_process([*program, "-in", "in.lmp"])
    assert done.returncode == 2
    assert "does not call fix python/invoke at the set-up of a run" in done.stderr
    assert "use 'fix ID all external pf/callback 1 1' with 'python gie_attach'" in done.stderr
    assert "Loop time" not in done.stdout
