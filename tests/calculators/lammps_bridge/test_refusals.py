"""What cannot be served is refused when the potential is attached, or when LAMMPS gets to it."""

import contextlib

import pytest

from md_gie.calculators.lammps_bridge import attach
from md_gie.errors import ConfigError, SimulationError, StructureError
from tests.calculators.lammps_bridge.conftest import ELEMENTS, SMOKE

pytestmark = pytest.mark.lammps


@pytest.fixture
def lmp(make_atoms, make_lammps, write_data):
    return make_lammps(write_data(make_atoms("cubic", 8)))


def test_other_units(make_atoms, make_lammps, write_data):
    lmp = make_lammps(write_data(make_atoms("cubic", 8)), units="lj")
    with pytest.raises(ConfigError, match=r"^units lj are not served, only metal and real"):
        attach(lmp, SMOKE, ELEMENTS)


def test_other_numbers_of_elements(lmp):
    message = r"^2 elements for 3 types \(type 1 = O, type 2 = H\)"
    with pytest.raises(ConfigError, match=message):
        attach(lmp, SMOKE, "O H")


def test_elements_that_the_model_does_not_know(lmp):
    message = (
        r"^p0_smoke does not know Si \(type 1 = O, type 2 = Si, type 3 = C\); it knows O, H, C"
    )
    with pytest.raises(StructureError, match=message):
        attach(lmp, SMOKE, "O Si C")


def test_type_without_an_element_that_has_atoms(lmp):
    bridge = attach(lmp, SMOKE, "O NULL C")
    lmp.command("run 0")
    with pytest.raises(ConfigError, match=r"^atom \d has type 2, for which no element was given"):
        bridge.raise_error()


def test_group_of_some_atoms(lmp):
    lmp.commands_string("group some id 1 2\nfix gie some external pf/callback 1 1")
    with pytest.raises(
        ConfigError, match=r"^fix gie acts on the group some, .*; write 'fix gie all"
    ):
        attach(lmp, SMOKE, ELEMENTS)


def test_fix_of_another_style(lmp):
    lmp.command("fix gie all nve")
    with pytest.raises(ConfigError, match=r"^fix gie is of style nve; write 'fix gie all external"):
        attach(lmp, SMOKE, ELEMENTS)


def test_respa_chosen_after_the_hook(lmp):
    bridge = attach(lmp, SMOKE, ELEMENTS)
    lmp.commands_string("run_style respa 2 2\nfix move all nve\nrun 1")
    with pytest.raises(ConfigError, match=r"^run_style respa is not served; write"):
        bridge.raise_error()


def test_atoms_without_ids(make_atoms, package):
    lmp = package(cmdargs=["-screen", "none", "-log", "none"])
    lmp.commands_string(
        "units metal\natom_modify id no\nregion r block 0 5 0 5 0 5\ncreate_box 1 r\n"
        "create_atoms 1 random 3 1 NULL\nmass 1 16.0\npair_style none"
    )
    bridge = attach(lmp, SMOKE, "O")
    lmp.command("run 0")
    with pytest.raises(ConfigError, match=r"^the atoms have no ids \(atom_modify id no\)"):
        bridge.raise_error()
    lmp.close()


def test_masses_that_contradict_are_told_and_not_used(make_atoms, make_lammps, write_data, capsys):
    atoms = make_atoms("cubic", 8)
    lmp = make_lammps(write_data(atoms))
    attach(lmp, SMOKE, ELEMENTS, dtype="float64")
    lmp.commands_string("mass 2 2.014\nrun 0")  # deuterium is hydrogen
    energy = lmp.get_thermo("pe")
    assert capsys.readouterr().err == ""
    attach(lmp, SMOKE, ELEMENTS, dtype="float64")
    lmp.commands_string("mass 1 32.06\nrun 0\nrun 0")
    assert lmp.get_thermo("pe") == energy
    warning = "md-gie: warning: O has a mass of 32.06 amu instead of 15.999; elements are used as"
    assert capsys.readouterr().err.count(warning) == 1


def test_error_in_a_force_call_ends_the_run_there(lmp, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    bridge = attach(lmp, SMOKE, ELEMENTS, dtype="float64")
    lmp.commands_string("velocity all create 30.0 1\nfix move all nve\ntimestep 1e-4\nrun 3")
    evaluate = bridge._forces.compute

    def failing(*arguments):
        if bridge.n_calls == 8:  # 4 calls of the first run, then set-up and steps 4, 5, 6
            raise SimulationError("on purpose")
        return evaluate(*arguments)

    monkeypatch.setattr(bridge._forces, "compute", failing)
    with contextlib.suppress(Exception):  # LAMMPS itself may find the numbers useless first
        lmp.command("run 10")
    assert lmp.extract_global("ntimestep") <= 7
    with pytest.raises(SimulationError, match=r"on purpose; the frame is in gie.failed.extxyz$"):
        bridge.raise_error()
    bridge.raise_error()  # told once


def test_overlapping_atoms_are_named_by_their_ids(lmp, make_atoms):
    bridge = attach(lmp, SMOKE, ELEMENTS, dtype="float64")
    lmp.commands_string(
        "group two id 3\nset group two x 0.0 y 0.0 z 0.0\n"
        "group five id 5\nset group five x 0.05 y 0.0 z 0.0\nrun 0"
    )
    with pytest.raises(StructureError, match=r"0\.05 Å apart; .* \(LAMMPS ids 3, 5\)$"):
        bridge.raise_error()


def test_engine_that_cannot_share_a_configuration(lmp, monkeypatch):
    from mpi4py import MPI

    from md_gie.calculators.lammps_bridge import bridge
    from md_gie.calculators.lammps_bridge.api import LammpsAPI

    class Alone:
        name, species, cutoff = "alone", ("O", "H", "C"), 4.0

    monkeypatch.setattr(LammpsAPI, "communicator", lambda self: MPI.COMM_SELF)
    monkeypatch.setattr(bridge, "load_potential", lambda *_, **__: Alone())
    message = r"^the engine of alone cannot share a configuration between the 1 ranks"
    with pytest.raises(ConfigError, match=message):
        attach(lmp, SMOKE, ELEMENTS)
