"""Padded batches: what a captured step sees must train like the batch itself."""

import torch

from md_gie.model import DPA4, DPA4Config
from md_gie.training.captured import Capacity, pad_batch
from md_gie.training.config import LossConfig
from md_gie.training.data import collate
from md_gie.training.initialize import initialize
from md_gie.training.loss import predict, training_loss

LOSS = LossConfig(energy_weight_start=1.0, energy_weight_end=1.0)
PARAMS = {
    "type_map": ["O", "H"],
    "descriptor": {
        "rcut": 4.0, "channels": 8, "n_radial": 4, "lmax": 2, "n_blocks": 1, "mixing_layers": 2,
        "message_node_so3": True, "ffn_so3_grid": True, "grid_branch": [0, 0, 1],
        "so3_readout": "mlp",
    },
    "fitting_net": {},
}  # fmt: skip


def gradients(model, batch):
    model.zero_grad()
    prediction = predict(model, batch, create_graph=True)
    loss = training_loss(prediction, batch, LOSS, 3.0)
    loss.backward()
    grads = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    return prediction, loss, grads


def test_padding_changes_neither_prediction_nor_loss_nor_gradients(graphs):
    config = DPA4Config.from_model_params(PARAMS)
    model = DPA4(config).train()
    initialize(model, config, 5)
    batch = collate(graphs[:3])
    n_atoms, n_edges = batch.edges.n_atoms, batch.edges.n_edges
    for capacity in (Capacity(n_atoms + 1, n_edges), Capacity(n_atoms + 4, n_edges + 37)):
        padded = pad_batch(batch, capacity)
        assert padded.edges.n_atoms == capacity.n_atoms
        assert padded.edges.n_edges == capacity.n_edges
        expected, loss, grads = gradients(model, batch)
        got, padded_loss, padded_grads = gradients(model, padded)
        torch.testing.assert_close(got.energies, expected.energies)
        torch.testing.assert_close(got.forces[:n_atoms], expected.forces)
        assert not got.forces[n_atoms:].any()
        torch.testing.assert_close(padded_loss, loss)
        assert padded_grads.keys() == grads.keys()
        for name, grad in grads.items():
            torch.testing.assert_close(padded_grads[name], grad, rtol=1e-4, atol=1e-5, msg=name)


def test_padded_edges_stay_sorted_by_source(graphs):
    batch = collate(graphs[:2])
    capacity = Capacity(batch.edges.n_atoms + 2, batch.edges.n_edges + 5)
    edges = pad_batch(batch, capacity).edges
    sources = edges.src[edges.source_order.long()]
    assert bool((sources.diff() >= 0).all())
    counts = torch.bincount(edges.src.long(), minlength=capacity.n_atoms)
    assert torch.equal(edges.source_ptr.diff().long(), counts)
    assert torch.equal(
        edges.row_ptr.diff().long(), torch.bincount(edges.dst.long(), minlength=capacity.n_atoms)
    )
