"""Evaluation: forces and virials are derivatives of the energy; limits of what can be evaluated."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from md_gie.engine import Engine, load_potential
from md_gie.engine.checks import check_contacts
from md_gie.engine.dpa4 import DPA4Engine
from md_gie.errors import SimulationError, StructureError
from md_gie.model import load_model
from md_gie.neighbors import Edges

Edging = Callable[..., Edges]
STEP = 1e-4
# Error of the central difference: STEP² times third derivatives of some eV/Å³.
FORCE_TOLERANCE, VIRIAL_TOLERANCE = 2e-7, 2e-6


def test_forces_are_the_negative_gradient(engine: Engine, triclinic: Any, edges_of: Edging) -> None:
    types = torch.from_numpy(triclinic["types"])
    positions, cell = triclinic["coord"], triclinic["cell"]
    forces = engine.evaluate(types, edges_of(positions, cell, True)).forces
    for atom, axis in ((0, 0), (5, 1), (13, 2), (8, 0)):
        energies = []
        for sign in (1, -1):
            moved = positions.copy()
            moved[atom, axis] += sign * STEP
            energies.append(float(engine.evaluate(types, edges_of(moved, cell, True)).energy))
        slope = (energies[0] - energies[1]) / (2 * STEP)
        assert float(forces[atom, axis]) == pytest.approx(-slope, abs=FORCE_TOLERANCE)
    assert_close(forces.sum(0), torch.zeros(3).double(), rtol=0, atol=1e-12)


def test_virial_is_the_strain_derivative(engine: Engine, triclinic: Any, edges_of: Edging) -> None:
    types = torch.from_numpy(triclinic["types"])
    result = engine.evaluate(types, edges_of(triclinic["coord"], triclinic["cell"], True))
    assert torch.equal(result.virial, result.virial.T)
    for a, b in ((0, 0), (1, 1), (2, 2), (0, 1), (2, 0), (1, 2)):
        energies = []
        for sign in (1, -1):
            strain = np.eye(3)
            strain[a, b] += sign * STEP
            edges = edges_of(triclinic["coord"] @ strain, triclinic["cell"] @ strain, True)
            energies.append(float(engine.evaluate(types, edges).energy))
        slope = (energies[0] - energies[1]) / (2 * STEP)
        assert float(result.virial[a, b]) == pytest.approx(-slope, abs=VIRIAL_TOLERANCE)


def test_shares_of_atoms_add_up(engine: Engine, triclinic: Any, edges_of: Edging) -> None:
    types = torch.from_numpy(triclinic["types"])
    edges = edges_of(triclinic["coord"], triclinic["cell"], True)
    result = engine.evaluate(types, edges, atomic_virials=True)
    assert result.atomic_virials is not None
    assert result.atomic_virials.shape == (14, 3, 3)
    assert_close(result.atomic_virials.sum(0), result.virial, rtol=0, atol=1e-12)
    assert_close(result.atomic_energies.sum(), result.energy, rtol=0, atol=1e-12)
    assert engine.evaluate(types, edges).atomic_virials is None
    # Half of each edge's share to either atom.
    assert_close(result.atomic_virials, by_edges(engine, types, edges), rtol=0, atol=1e-12)


def by_edges(engine: Engine, types: torch.Tensor, edges: Edges) -> torch.Tensor:
    assert isinstance(engine, DPA4Engine)
    leaf = edges.vectors.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(engine.model(types, edges, leaf).sum(), leaf)
    out = torch.zeros(edges.n_atoms, 3, 3, dtype=torch.float64)
    for e, (i, j) in enumerate(zip(edges.dst.tolist(), edges.src.tolist(), strict=True)):
        share = -torch.outer(gradient[e], edges.vectors[e])
        out[i] += share / 2
        out[j] += share / 2
    return out


@pytest.mark.parametrize("n_atoms", [0, 1, 3])
@pytest.mark.parametrize("kernels", ["auto", "reference"])
def test_structures_without_edges(n_atoms: int, kernels: str, data: Any, edges_of: Edging) -> None:
    engine = load_potential(data / "p0_smoke.pt", kernels=kernels)
    positions = 100.0 * np.arange(n_atoms)[:, None] * np.ones(3)
    types = torch.arange(n_atoms)
    result = engine.evaluate(types, edges_of(positions), atomic_virials=True)
    assert result.energy.dtype == result.forces.dtype == torch.float64
    assert result.forces.shape == (n_atoms, 3)
    assert (result.forces == 0).all()
    assert (result.virial == 0).all()
    assert result.atomic_virials is not None
    assert result.atomic_virials.shape == (n_atoms, 3, 3)
    alone = [float(engine.evaluate(types[i : i + 1], edges_of(np.zeros((1, 3)))).energy)
             for i in range(n_atoms)]  # fmt: skip
    assert float(result.energy) == pytest.approx(sum(alone), rel=1e-6)


def test_results_repeat_bit_for_bit(data: Any, triclinic: Any, edges_of: Edging) -> None:
    types = torch.from_numpy(triclinic["types"])
    edges = edges_of(triclinic["coord"], triclinic["cell"], True)
    engines = [load_potential(data / "p0_water_mini.pt") for _ in range(2)]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        results = [engine.evaluate(types, edges) for engine in (*engines, engines[0])]
    finally:
        torch.set_num_threads(before)
    for result in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(result[:4], results[0][:4], strict=True))


def test_inputs_are_left_as_they_were(engine: Engine, triclinic: Any, edges_of: Edging) -> None:
    types = torch.from_numpy(triclinic["types"])
    edges = edges_of(triclinic["coord"], triclinic["cell"], True)
    before = [tensor.clone() for tensor in (types, *edges)]
    with torch.no_grad():
        engine.evaluate(types, edges, atomic_virials=True)
        assert not torch.is_grad_enabled()
    assert all(torch.equal(a, b) for a, b in zip(before, (types, *edges), strict=True))
    assert not edges.vectors.requires_grad


def test_types_of_elements(engine: Engine) -> None:
    assert engine.types_of([1, 8, 6, 8]).tolist() == [1, 0, 2, 0]
    assert engine.types_of([]).tolist() == []


def test_unknown_elements_are_named(engine: Engine) -> None:
    with pytest.raises(
        StructureError,
        match=r"p0_water_mini does not know Cl, Na \(3 atoms, indices 1, 2, 4\); it knows O, H, C",
    ) as caught:
        engine.types_of([8, 11, 17, 1, 11])
    assert caught.value.data["indices"] == [1, 2, 4]
    with pytest.raises(StructureError, match=r"\(12 atoms, indices 0, 1, .*, 9, …\)"):
        engine.types_of([79] * 12)


def test_a_result_that_is_not_finite_stops(data: Any, triclinic: Any, edges_of: Edging) -> None:
    model = load_model(data / "p0_smoke.pt")
    with torch.no_grad():
        model.get_parameter("descriptor.type_embedding.adam_type_embedding")[2] = float("inf")
    device = torch.device("cpu")
    engine = DPA4Engine(model, name="broken", device=device, dtype=torch.float64, kernels="auto")
    types = torch.tensor([0, 0, 2, 1])
    positions = np.array([[0.0, 0, 0], [1.0, 0, 0], [50.0, 0, 0], [0.0, 1.0, 0.0]])
    with pytest.raises(SimulationError, match=r"broken gives .* not finite for 1 atoms") as caught:
        engine.evaluate(types, edges_of(positions))
    assert caught.value.data["atoms"] == [2]


@pytest.mark.parametrize(
    ("positions", "cell", "message"),
    [
        ([[0, 0, 0], [3, 0, 0], [3, 0, 0.1]], None, r"atoms 1 and 2 are 0\.1 Å apart; .* 0\.2 Å"),
        ([[0, 0, 0]], [[0.15, 0, 0], [0, 9, 0], [0, 0, 9]], "atom 0 and its own periodic image"),
    ],
)
def test_contacts_are_named(positions: Any, cell: Any, message: str, edges_of: Edging) -> None:
    edges = edges_of(np.array(positions, float), cell, cell is not None, 1.0)
    with pytest.raises(StructureError, match=message):
        check_contacts(edges)
    with pytest.raises(StructureError, match="atoms 3 and 4 are 0 Å apart"):
        check_contacts(edges, (4, 3))


def test_no_contact_is_no_error(edges_of: Edging) -> None:
    check_contacts(edges_of(np.array([[0.0, 0, 0], [0.21, 0, 0]])))
    check_contacts(edges_of(np.zeros((1, 3))))
