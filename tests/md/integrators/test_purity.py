"""Of every integrator: steps change nothing in place and depend on nothing but the state."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from md_gie.engine.base import Evaluation
from md_gie.md import (
    BussiVerlet,
    Freedom,
    Integrator,
    LangevinBAOAB,
    MDState,
    NoseHooverChains,
    StochasticCellRescaling,
    VelocityVerlet,
)

FREE = Freedom.of(32, conserves_momentum=True)


def barostat(coupling: str) -> Integrator:
    return StochasticCellRescaling(
        4.0,
        80.0,
        0.1,
        thermostat_fs=100.0,
        barostat_fs=300.0,
        compressibility_per_GPa=0.3,
        coupling=coupling,
        seed=0,
        freedom=FREE,
    )


MAKERS: dict[str, Callable[[], Integrator]] = {
    "verlet": lambda: VelocityVerlet(4.0, FREE),
    "langevin": lambda: LangevinBAOAB(4.0, 80.0, 5.0, 0, FREE),
    "bussi": lambda: BussiVerlet(4.0, 80.0, 100.0, 0, FREE),
    "nose-hoover": lambda: NoseHooverChains(4.0, 80.0, 100.0, 3, FREE),
    "isotropic": lambda: barostat("isotropic"),
    "anisotropic": lambda: barostat("anisotropic"),
    "full-cell": lambda: barostat("full-cell"),
}


def assert_same(first: MDState, second: MDState) -> None:
    for a, b in zip(first, second, strict=True):
        assert a == b if isinstance(a, int) else torch.equal(a, b)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_steps_are_functions_of_the_state(
    make: Callable[[], Integrator], make_forces: Callable, start: Callable
) -> None:
    forces = make_forces(skin=0.0)
    one, other = make(), make()
    state = one.start(start(forces, 80.0))
    before = MDState(*(x.clone() if isinstance(x, Tensor) else x for x in state))
    states = [state]
    for _ in range(70):  # across the end of a block of random numbers
        states.append(one.step(states[-1], forces))
    assert_same(state, before)
    for number in (69, 3, 64, 0):
        assert_same(other.step(states[number], forces), states[number + 1])


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_step_evaluates_once(
    make: Callable[[], Integrator], make_forces: Callable, start: Callable
) -> None:
    forces = make_forces()
    integrator = make()
    state = integrator.start(start(forces, 80.0))
    count = 0

    def counted(positions: Tensor, cell: Tensor) -> object:
        nonlocal count
        count += 1
        return forces(positions, cell)

    after = integrator.step(state, counted)
    assert count == 1
    result = forces(after.positions, after.cell)
    torch.testing.assert_close(after.forces, result.forces, rtol=0, atol=1e-12)
    torch.testing.assert_close(after.virial, result.virial, rtol=0, atol=1e-12)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_gpu_follows_the_cpu(
    make: Callable[[], Integrator], make_forces: Callable, start: Callable
) -> None:
    forces = make_forces()
    on_cpu = start(forces, 80.0)

    def on_host(positions: Tensor, cell: Tensor) -> Evaluation:
        result = forces(positions.cpu(), cell.cpu())
        return Evaluation(*(value.cuda() for value in result[:4]))

    on_gpu = MDState(*(x.cuda() if isinstance(x, Tensor) else x for x in on_cpu))
    on_gpu = on_gpu._replace(bath=on_cpu.bath)
    one, other = make(), make()
    on_cpu, on_gpu = one.start(on_cpu), other.start(on_gpu)
    for _ in range(20):
        on_cpu, on_gpu = one.step(on_cpu, forces), other.step(on_gpu, on_host)
    for a, b in zip(on_cpu, on_gpu, strict=True):
        if isinstance(a, Tensor):
            torch.testing.assert_close(a, b.cpu(), rtol=1e-9, atol=1e-9)
