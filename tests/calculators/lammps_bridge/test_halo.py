"""One process whose copies are all periodic images, against the periodic graph."""

import threading

import numpy as np
import pytest
import torch

from md_gie.calculators.lammps_bridge.atoms import Box
from md_gie.calculators.lammps_bridge.forces import SerialForces
from md_gie.calculators.lammps_bridge.halo import ProcessHalo
from md_gie.calculators.lammps_bridge.halo_plan import (
    lattice_coordinates,
    own_extent,
    plan_sending,
)
from md_gie.calculators.lammps_bridge.parallel import ParallelForces, edges_of_own
from md_gie.calculators.lammps_bridge.settings import Settings
from md_gie.engine import load_potential
from md_gie.neighbors import NeighborCache
from tests.calculators.lammps_bridge.conftest import ELEMENTS, SMOKE

TOLERANCE = 1e-12


class Atoms:
    """What the bridge knows of LAMMPS's atoms."""

    def __init__(self, atoms) -> None:
        self.ids = np.arange(1, len(atoms) + 1)
        self.types = np.array([ELEMENTS.index(s) + 1 for s in atoms.symbols], np.int64)
        self.positions = atoms.positions.copy()


@pytest.fixture(scope="session")
def communicator():
    MPI = pytest.importorskip("mpi4py.MPI", reason="mpi4py or its MPI is not installed")
    return MPI.COMM_SELF


@pytest.fixture(scope="session")
def engine():
    return load_potential(SMOKE, dtype="float64", device="cpu")


def box_of(atoms) -> Box:
    return Box(atoms.cell.array, atoms.pbc, np.zeros(3))


def assert_same(got, expected):
    for name in ("forces", "energies", "virials", "virial"):
        one, other = getattr(got, name), getattr(expected, name)
        assert np.abs(one - other).max() <= TOLERANCE * max(1.0, np.abs(other).max()), name
    assert got.energy == pytest.approx(expected.energy, rel=TOLERANCE)


@pytest.mark.parametrize("halo", ["features", "wide"])
@pytest.mark.parametrize("kind", ["cubic", "triclinic", "slab", "molecule"])
def test_images_as_copies_give_the_same(kind, halo, make_atoms, engine, communicator):
    made = make_atoms(kind)
    atoms, box = Atoms(made), box_of(made)
    settings = Settings(str(SMOKE), tuple(ELEMENTS), halo=halo)
    serial = SerialForces(engine, settings)
    shared = ParallelForces(engine, settings, communicator)
    expected = serial.compute(atoms, box, True, True)
    assert_same(shared.compute(atoms, box, True, True), expected)
    assert shared.compute(atoms, box, False, False).virials is None
    assert shared.n_plans == 1


@pytest.mark.parametrize("halo", ["features", "wide"])
def test_plan_is_kept_while_it_is_good(halo, make_atoms, engine, communicator):
    made = make_atoms("triclinic")
    atoms, box = Atoms(made), box_of(made)
    settings = Settings(str(SMOKE), tuple(ELEMENTS), halo=halo, skin=0.6)
    shared = ParallelForces(engine, settings, communicator)
    rng = np.random.default_rng(5)
    plans = []
    for _ in range(30 if halo == "features" else 8):
        serial = SerialForces(engine, settings)
        expected = serial.compute(atoms, box, True, True)
        assert_same(shared.compute(atoms, box, not plans, True), expected)
        plans.append(shared.n_plans)
        atoms.positions = atoms.positions + rng.normal(0.0, 0.05, atoms.positions.shape)
        strain = np.eye(3) + rng.normal(0.0, 3e-4, (3, 3))
        box = Box(box.cell @ strain, box.pbc, box.origin)
        atoms.positions = atoms.positions @ strain
    assert 1 < plans[-1] < 0.8 * len(plans)


def test_atom_that_is_wrapped_gets_a_new_plan(make_atoms, engine, communicator):
    made = make_atoms("cubic")
    atoms, box = Atoms(made), box_of(made)
    settings = Settings(str(SMOKE), tuple(ELEMENTS))
    shared = ParallelForces(engine, settings, communicator)
    first = shared.compute(atoms, box, True, True)
    atoms.positions = atoms.positions.copy()
    atoms.positions[0] += box.cell[1]
    assert_same(shared.compute(atoms, box, False, True), first)
    assert shared.n_plans == 2


def test_exchange_is_differentiable_and_its_own_transpose(make_atoms, communicator):
    made = make_atoms("cubic")
    box = box_of(made)
    coordinates = lattice_coordinates(made.positions, box)
    sending = plan_sending(coordinates, [own_extent(coordinates)], 0, box, 3.0)
    halo = ProcessHalo(communicator, sending, len(made), torch.device("cpu"), features=True)
    assert halo.n_copies > 10
    features = torch.randn(4, len(made), 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(halo.exchange, (features,))
    out = halo.exchange(features)
    assert torch.equal(out[:, halo.n_own :], features[:, torch.from_numpy(sending.atoms)])


def test_backward_runs_in_the_thread_that_calls(make_atoms, engine, communicator, monkeypatch):
    made = make_atoms("cubic")
    threads = []
    returned = ProcessHalo._return

    def watch(self, values):
        threads.append(threading.get_ident())
        return returned(self, values)

    monkeypatch.setattr(ProcessHalo, "_return", watch)
    settings = Settings(str(SMOKE), tuple(ELEMENTS))
    shared = ParallelForces(engine, settings, communicator)
    shared.compute(Atoms(made), box_of(made), True, False)
    # Once for each block, and once for the forces.
    assert len(threads) == len(engine.model.blocks) + 1
    assert set(threads) == {threading.get_ident()}


def test_process_without_atoms_takes_part(engine, communicator, monkeypatch):
    """It has nothing to evaluate, but must exchange as often as the others, backwards too."""
    swaps = []
    swap = ProcessHalo._swap

    def watch(self, *arguments):
        swaps.append(1)
        return swap(self, *arguments)

    monkeypatch.setattr(ProcessHalo, "_swap", watch)
    settings = Settings(str(SMOKE), tuple(ELEMENTS))
    box = Box(np.eye(3) * 9.0, np.full(3, True), np.zeros(3))
    counts = []
    for made in (_few(0), _few(3)):
        swaps.clear()
        shares = ParallelForces(engine, settings, communicator).compute(made, box, True, True)
        counts.append(len(swaps))
        assert shares.forces.shape == (len(made.ids), 3)
    assert counts[0] == counts[1] > 2 * len(engine.model.blocks)


def _few(count: int) -> Atoms:
    import ase

    places = np.array([[0, 0, 0], [1.5, 0, 0], [0, 1.5, 0]])[:count]
    return Atoms(ase.Atoms("OHC"[:count], positions=places.reshape(-1, 3)))


def test_edges_of_own_keep_order_and_transpose(make_atoms):
    made = make_atoms("molecule", 9)
    edges = NeighborCache(3.0).update(made.positions, np.eye(3), [False] * 3)
    own = edges_of_own(edges, 4)
    kept = edges.dst < 4
    assert torch.equal(own.vectors, edges.vectors[kept])
    assert own.n_atoms == 9
    for j in range(9):
        numbers = own.source_order[own.source_ptr[j] : own.source_ptr[j + 1]]
        assert numbers.tolist() == torch.nonzero(own.src == j).flatten().tolist()
