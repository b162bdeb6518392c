"""Small systems whose statistics are known."""

from collections.abc import Callable

import ase
import pytest
import torch
from ase.calculators.calculator import Calculator, all_changes
from torch import Tensor

from md_gie.engine.base import Evaluation
from md_gie.md import Freedom
from md_gie.md.freedom import maxwell_boltzmann
from md_gie.md.state import MDState
from md_gie.structure import Structure
from md_gie.units import AMU_A2_FS2_EV, BOLTZMANN_EV_K

STIFFNESS = 1.0  # eV/Å²


@pytest.fixture
def springs() -> Callable[[Tensor, Tensor], Evaluation]:
    """Every atom on a spring of 1 eV/Å² of its own to the origin."""

    def evaluate(positions: Tensor, cell: Tensor) -> Evaluation:
        forces = -STIFFNESS * positions
        energies = 0.5 * STIFFNESS * positions.square().sum(1)
        return Evaluation(energies.sum(), forces, forces.T @ positions, energies)

    return evaluate


@pytest.fixture
def ideal_gas() -> Callable[[Tensor, Tensor], Evaluation]:
    def evaluate(positions: Tensor, cell: Tensor) -> Evaluation:
        nothing = torch.zeros_like(positions)
        virial = torch.zeros(3, 3, dtype=torch.float64)
        return Evaluation(nothing.sum(), nothing, virial, nothing[:, 0])

    return evaluate


@pytest.fixture
def oscillators(springs: Callable) -> Callable[[int, float], MDState]:
    """Atoms drawn from the canonical ensemble of their springs."""

    def make(n_atoms: int, temperature_K: float) -> MDState:
        masses = torch.linspace(1.0, 20.0, n_atoms, dtype=torch.float64)
        generator = torch.Generator().manual_seed(0)
        spread = (BOLTZMANN_EV_K * temperature_K / STIFFNESS) ** 0.5
        positions = spread * torch.randn(n_atoms, 3, generator=generator, dtype=torch.float64)
        velocities = maxwell_boltzmann(masses, temperature_K, seed=1)
        return MDState.start(positions, velocities, masses, torch.eye(3).double(), springs)

    return make


@pytest.fixture
def gas(ideal_gas: Callable) -> Callable[[int, float, float], MDState]:
    """Free atoms of 10 amu in a cube."""

    def make(n_atoms: int, temperature_K: float, length: float) -> MDState:
        masses = torch.full((n_atoms,), 10.0, dtype=torch.float64)
        generator = torch.Generator().manual_seed(0)
        positions = length * torch.rand(n_atoms, 3, generator=generator, dtype=torch.float64)
        velocities = maxwell_boltzmann(masses, temperature_K, seed=1)
        cell = length * torch.eye(3, dtype=torch.float64)
        return MDState.start(positions, velocities, masses, cell, ideal_gas)

    return make


@pytest.fixture
def freedom() -> Callable[..., Freedom]:
    def make(n_atoms: int, *, conserves_momentum: bool = True, **options: object) -> Freedom:
        return Freedom.of(n_atoms, conserves_momentum=conserves_momentum, **options)

    return make


class Borrowed(Calculator):
    """The forces of a run for ASE."""

    implemented_properties = ("energy", "free_energy", "forces")

    def __init__(self, forces: Callable) -> None:
        super().__init__()
        self.run_forces = forces

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes) -> None:
        super().calculate(atoms, properties, system_changes)
        result = self.run_forces(torch.tensor(atoms.positions), torch.tensor(atoms.cell.array))
        energy = result.energy.item()
        self.results = {"energy": energy, "free_energy": energy, "forces": result.forces.numpy()}


@pytest.fixture
def in_ase(make_forces: Callable) -> Callable[[Structure, MDState], ase.Atoms]:
    """Return a state as ASE's atoms, in a unit of time that differs from ours by no rounding."""

    def make(structure: Structure, state: MDState) -> ase.Atoms:
        atoms = structure.to_ase()
        # ASE's constants are those of 2014; its time is Å sqrt(amu/eV).
        atoms.set_velocities(state.velocities.numpy() * AMU_A2_FS2_EV**0.5)
        atoms.calc = Borrowed(make_forces())
        return atoms

    return make
