"""Labelled frames: reading, graphs, block-diagonal batches, order, element energies."""

import gzip

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from md_gie.errors import StructureError
from md_gie.training.data import batch_indices, collate, fit_element_energies, read_frames
from md_gie.training.loss import predict


def test_reads_plain_and_gzipped_frames_in_order(frames, write_xyz, tmp_path):
    plain = write_xyz(tmp_path / "a.extxyz", frames[:3])
    packed = tmp_path / "b.extxyz.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    read = read_frames([plain, packed], ["O", "H"])
    assert len(read) == 6
    for number, frame in enumerate(read):
        expected = frames[number % 3]
        assert frame.symbols == expected.symbols
        assert frame.pbc == (True, True, True)
        assert frame.energy == pytest.approx(expected.energy, abs=1e-11)
        np.testing.assert_allclose(frame.forces, expected.forces, atol=1e-11)
        np.testing.assert_allclose(frame.positions, expected.positions, atol=1e-11)
        np.testing.assert_allclose(frame.cell, expected.cell, atol=1e-11)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (":forces:R:3", ":motion:R:3", "bad.extxyz, frame 0: has no forces"),
        ("energy=", "heat=", "bad.extxyz, frame 0: has no energy"),
        ("energy=", "energy=nan other=", "bad.extxyz, frame 0: energy has a number"),
        ("\nH ", "\nXe ", "bad.extxyz, frame 0: element Xe is not in type_map"),
        ("Properties=species", "Properties=nonsense", "bad.extxyz"),
    ],
)
def test_refuses_frames_that_cannot_be_used(old, new, message, frames, write_xyz, tmp_path):
    path = write_xyz(tmp_path / "bad.extxyz", frames[:1])
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(StructureError, match=message):
        read_frames([path], ["O", "H"])


def test_names_the_bad_frame_and_the_missing_file(frames, write_xyz, tmp_path):
    forces = frames[2].forces.copy()
    forces[1, 2] = np.inf
    path = write_xyz(tmp_path / "f.extxyz", [*frames[:2], frames[2]._replace(forces=forces)])
    with pytest.raises(StructureError, match=r"f\.extxyz, frame 2: forces"):
        read_frames([path], ["O", "H"])
    with pytest.raises(StructureError, match=r"absent\.extxyz"):
        read_frames([tmp_path / "absent.extxyz"], ["O", "H"])


def test_batch_is_block_diagonal(double_graphs, pair_potential):
    model = pair_potential(dtype=torch.float64)
    chosen = [double_graphs[i] for i in (1, 0, 3)]
    batch = collate(chosen)
    whole = predict(model, batch, create_graph=False)
    parts = [predict(model, collate([graph]), create_graph=False) for graph in chosen]
    assert_close(whole.energies, torch.cat([p.energies for p in parts]), rtol=0, atol=1e-13)
    assert_close(whole.forces, torch.cat([p.forces for p in parts]), rtol=0, atol=1e-13)
    assert batch.n_atoms.tolist() == [6.0, 5.0, 6.0]
    assert batch.frame.bincount().tolist() == [6, 5, 6]
    assert batch.energies.tolist() == [graph.energy.item() for graph in chosen]


def test_batch_edges_keep_the_csr_contract(double_graphs):
    edges = collate(double_graphs[:4]).edges
    rows = torch.arange(edges.n_atoms).repeat_interleave(edges.row_ptr.diff().long())
    assert_close(rows.int(), edges.dst)
    columns = torch.arange(edges.n_atoms).repeat_interleave(edges.source_ptr.diff().long())
    assert_close(edges.src[edges.source_order.long()], columns.int())
    assert edges.row_ptr[0] == edges.source_ptr[0] == 0
    assert edges.row_ptr[-1] == edges.source_ptr[-1] == edges.n_edges
    for start, end in zip(edges.source_ptr[:-1], edges.source_ptr[1:], strict=True):
        order = edges.source_order[start:end]
        assert bool((order.diff() > 0).all())
    assert {part.dtype for part in (edges.row_ptr, edges.src, edges.source_order)} == {torch.int32}


def test_order_visits_every_frame_once_per_pass_and_depends_on_the_step_alone():
    stream = [i for step in range(7) for i in batch_indices(10, 3, step, seed=5)]
    assert sorted(stream[:10]) == sorted(stream[10:20]) == list(range(10))
    assert stream[:10] != stream[10:20]
    assert batch_indices(10, 3, 5, seed=5) == stream[15:18]
    assert batch_indices(10, 3, 5, seed=6) != stream[15:18]


def test_element_energies_are_recovered(frames):
    expected = {"O": -430.0, "H": -13.5}
    labelled = [f._replace(energy=sum(expected[s] for s in f.symbols)) for f in frames]
    np.testing.assert_allclose(fit_element_energies(labelled, ["H", "O"]), [-13.5, -430.0])


def test_collinear_compositions_take_the_smallest_energies(frames):
    water = [f._replace(symbols=("O", "H", "H") * 2, energy=-30.0) for f in frames]
    # 2 e_O + 4 e_H = -30 with the least e_O² + e_H²; Xe does not occur.
    np.testing.assert_allclose(
        fit_element_energies(water, ["O", "H", "Xe"]), [-3.0, -6.0, 0.0], atol=1e-12
    )
