"""One step: same bits on any path and any number of threads; who owns the result."""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from md_gie.neighbors import Edges, NeighborCache, threads
from md_gie.neighbors.build import BUILDERS, Pairs, is_installed
from md_gie.neighbors.device_compaction import DevicePass, _lexicographic_order

CUDA = [pytest.param("cuda", marks=pytest.mark.gpu)] if torch.cuda.is_available() else []
DEVICES = ["cpu", *CUDA]
BACKENDS = [name for name in BUILDERS if is_installed(name)]


@pytest.fixture(autouse=True)
def keep_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def steps(case: Any, cache: NeighborCache) -> list[Edges]:
    rng = np.random.default_rng(1)
    moves = [0.0, 0.05, 0.3]
    return [
        cache.update(case.positions + rng.uniform(-1, 1, case.positions.shape) * move, *case[1:3])
        for move in moves
    ]


def assert_equal_bits(first: list[Edges], second: list[Edges]) -> None:
    for one, other in zip(first, second, strict=True):
        for name, a, b in zip(Edges._fields, one, other, strict=True):
            assert a.dtype == b.dtype, name
            assert torch.equal(a, b), name


def test_thread_count_changes_no_bit(liquid: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "EDGES_PER_BLOCK", 50)
    case = liquid(6, 5.0)
    results = []
    for n_threads in (1, 2, 3, 7):
        torch.set_num_threads(n_threads)
        results.append(steps(case, NeighborCache(case.cutoff)))
        assert torch.get_num_threads() == n_threads
    for other in results[1:]:
        assert_equal_bits(results[0], other)


def test_blocks_cover_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "EDGES_PER_BLOCK", 10)
    torch.set_num_threads(4)
    for counts in ([0] * 5, [100], [0, 0, 90, 0, 10, 0], [1] * 200, [0, 500, 0]):
        blocks = threads.split_rows(np.concatenate([[0], np.cumsum(counts)]))
        covered = [row for start, stop in blocks for row in range(start, stop)]
        assert covered == list(range(len(counts)))
    assert len(threads.split_rows(np.arange(201))) == 4


@pytest.mark.parametrize("device", DEVICES)
def test_tensor_operations_equal_compiled_loops(device: str, load_case: Any, liquid: Any) -> None:
    for case in (liquid(5, 5.0), load_case("rc30_cell5"), load_case("coincident_TTT")):
        cache = NeighborCache(case.cutoff, device=device)
        cache._pass = DevicePass()
        there = [Edges(*(tensor.cpu() for tensor in edges)) for edges in steps(case, cache)]
        assert_equal_bits(steps(case, NeighborCache(case.cutoff)), there)


@pytest.mark.parametrize("device", CUDA or ["cpu"])  # the interpreter, where there is no GPU
@pytest.mark.parametrize("captured", [True, False])
@pytest.mark.parametrize("name", ["liquid", "coincident_TTT", "wire_TFF", "triclinic_unreduced"])
def test_triton_kernels_equal_compiled_loops(
    name: str,
    captured: bool,
    device: str,
    load_case: Any,
    liquid: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    from md_gie.neighbors import gpu
    from md_gie.neighbors.gpu import TritonPass

    monkeypatch.setattr(gpu, "MOST_CAPTURED", 2**22 if captured else -1)

    case = liquid(3, 3.0) if name == "liquid" else load_case(name)
    caches = [NeighborCache(case.cutoff), NeighborCache(case.cutoff, device=device)]
    caches[1]._pass = TritonPass()
    rng = np.random.default_rng(1)
    strain = np.eye(3) + rng.uniform(-1e-3, 1e-3, (3, 3))
    moved = case.positions + rng.uniform(-0.02, 0.02, case.positions.shape)
    boxes = rng.integers(-2, 3, case.positions.shape) * case.pbc
    frames = [
        (case.positions, case.cell),
        (moved, case.cell),
        (moved + boxes @ case.cell, case.cell),  # a caller that wraps
        (moved @ strain, case.cell @ strain),
        (moved + rng.uniform(-0.5, 0.5, moved.shape), case.cell),
    ]
    for positions, cell in frames:
        one, other = (cache.update(positions, cell, case.pbc) for cache in caches)
        assert_equal_bits([one], [Edges(*(tensor.cpu() for tensor in other))])
        assert caches[0].coincident_pair() == caches[1].coincident_pair()
        assert caches[0].n_builds == caches[1].n_builds
    assert 1 < caches[1].n_builds < len(frames)


@pytest.mark.parametrize("backend", BACKENDS)
def test_libraries_give_the_same_bits(backend: str, liquid: Any, load_case: Any) -> None:
    for case in (liquid(5, 5.0), load_case("triclinic_unreduced"), load_case("wire_TFF")):
        first = NeighborCache(case.cutoff, backend="auto")
        assert_equal_bits(
            steps(case, first), steps(case, NeighborCache(case.cutoff, backend=backend))
        )


@pytest.mark.parametrize("path", ["compiled loops", "tensor operations"])
def test_order_of_the_library_does_not_matter(path: str, liquid: Any) -> None:
    case = liquid(5, 5.0)
    shuffled = NeighborCache(case.cutoff)
    if path == "tensor operations":
        shuffled._pass = DevicePass()
    inner = shuffled._builder

    def builder(*arguments: Any) -> Pairs:
        pairs = inner(*arguments)
        order = torch.randperm(len(pairs.dst), generator=torch.Generator().manual_seed(0))
        return Pairs(*(array[order] for array in pairs))

    shuffled._builder = builder
    assert_equal_bits(steps(case, NeighborCache(case.cutoff)), steps(case, shuffled))


def test_order_of_keys_too_long_for_one_number() -> None:
    rng = torch.Generator().manual_seed(0)
    dst, src, images = (torch.randint(0, 4, (500,), generator=rng) for _ in range(3))
    expected = _lexicographic_order(dst, src, images, 4, 4)
    keys = (dst * 4 + src) * 4 + images
    for n_atoms, n_images in ((4, 4), (2**31 - 1, 2**20)):
        order = _lexicographic_order(dst, src, images, n_atoms, n_images)
        assert torch.equal(keys[order], keys[expected])
        assert bool((keys[order].diff() >= 0).all())


def test_results_are_the_callers_to_keep(liquid: Any) -> None:
    case = liquid(4, 5.0)
    cache = NeighborCache(case.cutoff)
    kept = steps(case, cache)
    views = [edges.vectors[3:5] for edges in kept]
    copies = [Edges(*(tensor.clone() for tensor in edges)) for edges in kept]
    steps(case, cache)
    assert_equal_bits(kept, copies)
    expected = [edges.vectors[3:5].clone() for edges in kept]
    del kept
    steps(case, cache)
    for view, before in zip(views, expected, strict=True):
        assert torch.equal(view, before)


def test_dropped_results_give_their_memory_back(liquid: Any) -> None:
    case = liquid(4, 5.0)
    cache = NeighborCache(case.cutoff)
    places = {cache.update(*case[:3]).vectors.data_ptr() for _ in range(5)}
    assert len(places) == 1
    places = set()
    edges = cache.update(*case[:3])
    for _ in range(6):
        edges = cache.update(*case[:3])  # the old edges live until the new ones are there
        places.add(edges.vectors.data_ptr())
    assert len(places) == 2


def test_caches_in_several_threads_at_once(liquid: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "EDGES_PER_BLOCK", 500)
    torch.set_num_threads(2)
    case = liquid(6, 5.0)
    expected = steps(case, NeighborCache(case.cutoff))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: steps(case, NeighborCache(case.cutoff)), range(8)))
    for result in results:
        assert_equal_bits(expected, result)


def _rows_in_child(queue: Any) -> None:
    queue.put(threads.run_blocks(range, (0, 2), (2, 5), (5, 6)))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_blocks_run_after_a_fork() -> None:
    here = threads.run_blocks(range, (0, 2), (2, 5), (5, 6))
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_rows_in_child, args=(queue,))
    child.start()
    child.join(20)
    hung = child.is_alive()
    child.kill()
    assert not hung
    assert queue.get() == here
