"""Launching kernels: state left alone, several Python threads at once, forked processes."""

import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import pytest
import torch
from torch import Tensor

from md_gie.ops import threads, zonal_scatter

COUNTS = [400, 0, 700, 900, 1, 350]


@pytest.fixture(autouse=True)
def keep_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def scatter() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    n_edges = sum(COUNTS)
    coupling = torch.randn(n_edges, 8, generator=generator)
    radial = torch.randn(n_edges, 2, 16, generator=generator)
    return zonal_scatter(coupling, radial, torch.tensor([0, *COUNTS]).cumsum(0))


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of blocks of each parallel launch."""
    seen: list[int] = []
    launch = threads._run_parallel

    def counted(kernel: threads.Kernel, blocks: Any, arrays: Any) -> None:
        seen.append(len(blocks))
        launch(kernel, blocks, arrays)

    monkeypatch.setattr(threads, "_run_parallel", counted)
    return seen


def test_numbers_of_threads_are_restored(launches: list[int]) -> None:
    of_numba = numba.get_num_threads()
    for n_threads in (1, 2, 1, 3):
        torch.set_num_threads(n_threads)
        scatter()
        assert torch.get_num_threads() == n_threads
        assert numba.get_num_threads() == of_numba
    assert launches == [2, 3]


def test_first_launch_restores_too() -> None:
    code = (
        "import os, torch\n"
        "from test_threads import scatter\n"
        "torch.set_num_threads(os.cpu_count() + 1); scatter()\n"
        "assert torch.get_num_threads() == os.cpu_count() + 1\n"
        "torch.set_num_threads(1); scatter(); assert torch.get_num_threads() == 1\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)


def test_several_python_threads_at_once(launches: list[int]) -> None:
    torch.set_num_threads(2)
    expected = scatter()

    def work(_: int) -> bool:
        torch.set_num_threads(2)
        return all(torch.equal(scatter(), expected) for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    assert launches


def test_busy_kernels_make_others_serial(launches: list[int]) -> None:
    torch.set_num_threads(2)
    expected = scatter()
    with threads._LOCK:
        assert torch.equal(scatter(), expected)
    assert launches == [2]


def _in_child(queue: Any) -> None:
    torch.set_num_threads(2)
    queue.put(scatter().numpy())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_after_a_parallel_launch(launches: list[int]) -> None:
    torch.set_num_threads(2)
    expected = scatter()
    assert launches == [2]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    got = torch.from_numpy(queue.get(timeout=60))
    child.join(timeout=60)
    assert child.exitcode == 0
    assert torch.equal(got, expected)


@pytest.mark.parametrize("counts", [COUNTS, [3], [0, 0], [], [5000], [0, 5000, 0]], ids=str)
def test_blocks_cover_every_row_once(counts: list[int]) -> None:
    torch.set_num_threads(4)
    blocks = threads.split_rows(torch.tensor([0, *counts]).cumsum(0))
    assert [row for first, last in blocks for row in range(first, last)] == list(range(len(counts)))
    assert len(blocks) <= 4
    blocks = threads.split_edges(sum(counts))
    assert [e for first, last in blocks for e in range(first, last)] == list(range(sum(counts)))


def test_kernel_failure_releases_the_lock() -> None:
    def fail(*_: object) -> None:
        raise ArithmeticError

    torch.set_num_threads(2)
    kernel = threads.Kernel(fail, fail)
    for _ in range(2):
        with pytest.raises(ArithmeticError):
            threads.run_kernel(kernel, [(0, 1), (1, 2)], [], [])
    assert not threads._LOCK.locked()
    assert torch.get_num_threads() == 2
