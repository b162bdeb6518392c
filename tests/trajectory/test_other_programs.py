"""Trajectories opened by MDAnalysis, ZnH5MD and h5py, each with its defaults."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import h5py
import numpy as np
import pytest

from md_gie.trajectory import Frame, TrajectoryOptions
from md_gie.units import EV_KJ_MOL

Write = Callable[..., Path]
Make = Callable[..., Frame]


@pytest.fixture(scope="module")
def mdanalysis() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("MDAnalysis")


@pytest.fixture(scope="module")
def znh5md() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("znh5md")


@pytest.fixture(params=["whole", "sparse"])
def choice(request: pytest.FixtureRequest, options: TrajectoryOptions) -> TrajectoryOptions:
    """Everything with every frame, or at cadences that the programs do not know."""
    if request.param == "whole":
        return options
    return replace(options, frames_every=2, velocities_every=4, forces_every=6, observables_every=1)


@pytest.mark.filterwarnings("ignore:there is no reference attributes:UserWarning")
def test_mdanalysis_with_default_arguments(
    mdanalysis: ModuleType,
    write: Write,
    make_frame: Make,
    options: TrajectoryOptions,
    choice: TrajectoryOptions,
    tmp_path: Path,
) -> None:
    universe = mdanalysis.Universe(write(tmp_path / "a.h5md", range(0, 21, 2), choice))
    assert universe.trajectory.n_frames == 11
    assert universe.trajectory.n_atoms == 5
    for number, step in enumerate(universe.trajectory):
        given = make_frame(2 * number)
        np.testing.assert_allclose(step.positions, given.positions, rtol=1e-6, atol=1e-5)
        assert step.time == pytest.approx(given.time_fs / 1000)
        assert step.data["trajectory/temperature"] == given.observables["temperature"]
        np.testing.assert_allclose(step.triclinic_dimensions, aligned(given.cell), atol=1e-3)
        if choice is options:
            assert given.velocities is not None
            assert given.forces is not None
            # Å/ps and kJ/mol/Å.
            np.testing.assert_allclose(step.velocities, 1000 * given.velocities, rtol=1e-5)
            np.testing.assert_allclose(step.forces, EV_KJ_MOL * given.forces, rtol=1e-5)
        else:
            # Rather none than those of another step.
            assert not step.has_velocities
            assert not step.has_forces


def aligned(cell: np.ndarray) -> np.ndarray:
    """Turn a cell as MDAnalysis does: a along x, b in the xy plane."""
    r = np.linalg.qr(cell.T, mode="r")
    turned: np.ndarray = (r * np.sign(np.diag(r))[:, None]).T
    return turned


def test_znh5md_with_default_arguments(
    znh5md: ModuleType,
    write: Write,
    make_frame: Make,
    options: TrajectoryOptions,
    choice: TrajectoryOptions,
    tmp_path: Path,
) -> None:
    images = znh5md.IO(write(tmp_path / "a.h5md", range(0, 21, 2), choice))
    assert len(images) == 11
    for number, atoms in enumerate(images[:]):
        given = make_frame(2 * number)
        assert atoms.numbers.tolist() == [8, 1, 1, 8, 1]
        assert atoms.pbc.tolist() == [True, True, False]
        np.testing.assert_allclose(atoms.cell.array, given.cell)
        np.testing.assert_allclose(atoms.positions, given.positions, rtol=1e-6)
        assert atoms.get_potential_energy() == given.observables["potential_energy"]
        if choice is options:
            # It takes values as they stand, whatever the unit.
            expected = EV_KJ_MOL * np.asarray(given.forces)
            np.testing.assert_allclose(atoms.get_forces(), expected, rtol=1e-6)
        else:
            assert "forces" not in atoms.calc.results


def test_znh5md_has_forces_in_ev_if_asked(
    znh5md: ModuleType,
    write: Write,
    make_frame: Make,
    options: TrajectoryOptions,
    tmp_path: Path,
) -> None:
    choice = replace(options, force_unit="eV Angstrom-1")
    images = znh5md.IO(write(tmp_path / "a.h5md", range(3), choice))
    np.testing.assert_allclose(images[2].get_forces(), make_frame(2).forces, rtol=1e-6)


def test_h5py_needs_nothing_but_the_paths(write: Write, make_frame: Make, tmp_path: Path) -> None:
    with h5py.File(write(tmp_path / "a.h5md", range(4)), "r") as file:
        group = file["particles/trajectory"]
        assert group["position/value"].attrs["unit"] == "Angstrom"
        assert group["position/step"][()].tolist() == [0, 1, 2, 3]
        given = make_frame(3).positions
        np.testing.assert_allclose(group["position/value"][3], given, rtol=1e-6)
