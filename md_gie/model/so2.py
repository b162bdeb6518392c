"""SO(2) convolution: messages mixed in each edge's own frame, attention, sum over neighbours."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from md_gie.model.config import DPA4Config
from md_gie.model.embedding import pair_table
from md_gie.model.geometry import EdgeGeometry
from md_gie.model.layers import expand_rows, rms
from md_gie.model.message_product import MessageProduct, MessageProductWeights
from md_gie.model.weights import Weights
from md_gie.ops.attention import attention_weights
from md_gie.ops.edge_matmul import edge_matmul
from md_gie.ops.gate import gated_residual
from md_gie.ops.rotation import rotate_in, rotate_out


class AttentionWeights(NamedTuple):
    """Folded attention.

    Attributes
    ----------
    query, key : (F, Cf, Cf)
        Projections with the norm's scale, the query's with 1/sqrt(head width) too.
    offset : (F, A)
        Constant in the softmax denominator.
    gate : (F, Cf, A)
        Output gate with its norm's scale.
    """

    query: Tensor
    key: Tensor
    offset: Tensor
    gate: Tensor


class SO2Weights(NamedTuple):
    """Folded SO(2) convolution.

    Attributes
    ----------
    pre, post : (D, C, Hh), (D, Hh, C)
        Per-degree linear maps in and out.
    radial : (W, n + F A), pairs : (T², n + F A)
        From the radial hidden layer, and from the types of an edge, to the radial modulation (n
        numbers) and the attention bias.
    basis : (q, Hh) or None
        Channel basis of the radial kernel.
    layers : list of list of (F, K_m, K_m)
        Mixing matrices, one for each layer and order.
    gates : list of (F, Cf, L Cf)
        Gates between the layers.
    focus : (F, Cf) or None
        Focus competition with its norm's scale.
    attention : AttentionWeights or None
    row_scale : (D, 1, 1)
        Restores the norm of rows whose higher orders are dropped in the frame.
    product : MessageProductWeights or None
    """

    pre: Tensor
    post: Tensor
    radial: Tensor
    pairs: Tensor
    basis: Tensor | None
    layers: list[list[Tensor]]
    gates: list[Tensor]
    focus: Tensor | None
    attention: AttentionWeights | None
    row_scale: Tensor
    product: MessageProductWeights | None


class SO2Convolution:
    """SO(2) convolution of one interaction block."""

    def __init__(self, config: DPA4Config, block: int) -> None:
        self.config = config
        self.degree = config.degrees[block]
        self.order = config.orders[block]
        rank_mode = (
            "rank" if config.radial_so2_mode == "degree" or config.radial_so2_rank else ("channel")
        )
        self.mode = "none" if config.radial_so2_mode == "none" else rank_mode
        self.product = MessageProduct(config, self.degree) if config.message_node_so3 else None
        degrees = torch.arange(self.degree + 1, dtype=torch.float64)
        kept = 2.0 * self.order + 1.0
        self.row_scale = torch.where(
            degrees > self.order, ((2.0 * degrees + 1.0) / kept).sqrt(), 1.0
        )

    def fold(self, w: Weights, last: Tensor, types: Tensor) -> SO2Weights:
        """Fold every chain of linear maps.

        ``last`` (W, lmax + 1, C) is the radial network's last layer, ``types`` (T, C) the type
        embedding.
        """
        radial, pairs = self._fold_radial(w, last, types)
        config = self.config
        focus = None
        if config.n_focus > 1:
            focus = w["adamw_focus_compete_w"].T
            if config.edge_norm:
                focus = focus * w["focus_compete_norm.adam_scale"]
        basis = None
        if self.mode == "rank":
            name = "radial_degree_mixer.channel_basis"
            basis = w[name] if name in w else torch.ones_like(w["post_focus_mix.weight"][:1, :, 0])
        return SO2Weights(
            pre=expand_rows(w["pre_focus_mix.weight"], self.degree),
            post=expand_rows(w["post_focus_mix.weight"], self.degree),
            radial=radial,
            pairs=pairs,
            basis=basis,
            layers=[
                self._fold_layer(w.at(f"so2_linears.{k}"), k) for k in range(config.mixing_layers)
            ],
            gates=[
                self._streams(w[f"non_linearities.{k}.gate_linear.weight"])
                for k in range(config.mixing_layers - 1)
            ],
            focus=focus,
            attention=self._fold_attention(w) if config.n_heads else None,
            row_scale=expand_rows(w.constant(self.row_scale), self.degree)[:, None, None],
            product=self.product.fold(w.at("message_node_grid_product")) if self.product else None,
        )

    def _streams(self, weight: Tensor) -> Tensor:
        """View a focus linear map (in, F out) as (F, in, out)."""
        return weight.reshape(weight.shape[0], self.config.n_focus, -1).transpose(0, 1)

    def _fold_radial(self, w: Weights, last: Tensor, types: Tensor) -> tuple[Tensor, Tensor]:
        """Chain of last radial layer, hidden projection, kernel mixer and attention logits."""
        config = self.config
        last = last[:, : self.degree + 1]  # (W, L+1, C)
        project = (
            w["radial_hidden_proj.weight"]
            if "radial_hidden_proj.weight" in w
            else torch.eye(config.channels, dtype=last.dtype, device=last.device)
        )
        if self.mode == "none":
            radial = (last @ project).flatten(1)
            table = (types @ project).repeat(1, self.degree + 1)
        else:
            mixer = w["radial_degree_mixer.weight"]
            mixer = project @ mixer.reshape(self.degree + 1, config.hidden, -1)  # (L+1, C, n)
            radial = torch.einsum("wlc,lcn->wn", last, mixer)
            table = types @ mixer.sum(0)
        if config.n_heads:
            logits = w["adamw_attn_logit_w"].transpose(0, 1)  # (F, Cf, A)
            streams = project.reshape(config.channels, config.n_focus, config.focus_width)
            logits = torch.einsum("cfi,fia->cfa", streams, logits).flatten(1)
            radial = torch.cat([radial, last[:, 0] @ logits], dim=1)
            table = torch.cat([table, types @ logits], dim=1)
        return radial, pair_table(table, table)

    def _fold_layer(self, w: Weights, layer: int) -> list[Tensor]:
        """Mixing matrices per order; the last layer's residual is added to its matrix."""
        matrices = [self._streams(w["weight_m0"])]
        for m in range(1, self.order + 1):
            a, b = self._streams(w[f"weight_m.{m - 1}"]).chunk(2, dim=2)
            matrices.append(torch.cat([torch.cat([a, b], 2), torch.cat([-b, a], 2)], 1))
        if layer == self.config.mixing_layers - 1:
            matrices = [y + torch.eye(y.shape[1], dtype=y.dtype, device=y.device) for y in matrices]
        return matrices

    def _fold_attention(self, w: Weights) -> AttentionWeights:
        width = self.config.focus_width // self.config.n_heads
        scale = w["attn_qk_norm.adam_scale"].unsqueeze(2)
        gate = w["adamw_attn_gate_w"].transpose(0, 1)
        return AttentionWeights(
            query=self._streams(w["attn_q_proj.weight"]) * scale / math.sqrt(width),
            key=self._streams(w["attn_k_proj.weight"]) * scale,
            offset=F.softplus(w["adamw_attn_z_bias_raw"]) + 1e-7,
            gate=gate * w["attn_output_gate_norm.adam_scale"].unsqueeze(2),
        )

    def __call__(self, f: SO2Weights, x: Tensor, geometry: EdgeGeometry) -> Tensor:
        """Messages received by each atom: node state (D, N, C) to (D, N, C)."""
        hidden = x @ f.pre  # (D, N, Hh)
        received = self.edge_path(f, hidden, geometry)
        if f.product is not None and self.product is not None:
            received = received + self.product(f.product, received, hidden)
        return received @ f.post

    def edge_path(self, f: SO2Weights, hidden: Tensor, geometry: EdgeGeometry) -> Tensor:
        """Everything that runs once per edge: (D, N, Hh) to the sums over neighbours (D, N, Hh)."""
        config = self.config
        frames = geometry.frames[: self.degree + 1]
        fused = geometry.packed is not None
        radial = edge_matmul(geometry.radial.hidden[None], f.radial[None], fused=fused)[0]
        radial = radial + f.pairs.index_select(0, geometry.pair)
        n_bias = config.n_focus * config.n_heads
        modulation, bias = torch.split(radial, [radial.shape[1] - n_bias, n_bias], dim=1)
        streams = rotate_in(
            hidden.transpose(0, 1).contiguous(), frames, geometry.packed, modulation, f.basis,
            geometry.edges, order=self.order, mode=self.mode, n_focus=config.n_focus,
        )  # fmt: skip
        weights = self._weights(f, streams[0], hidden[0], bias, geometry)
        streams = self._mix(f, streams, fused)
        out = rotate_out(streams, weights, frames, geometry.packed, geometry.edges)
        out = out.transpose(0, 1) * f.row_scale
        return out * self._gate(f, hidden[0], geometry)

    def _mix(self, f: SO2Weights, streams: list[Tensor], fused: bool) -> list[Tensor]:
        """Mixing layers on the edge features of each order."""
        for matrices, gate in zip(f.layers[:-1], f.gates, strict=True):
            mixed = _each(streams, matrices, fused)
            streams = gated_residual(streams, mixed, gate, fused=fused)
        return _each(streams, f.layers[-1], fused)

    def _weights(
        self, f: SO2Weights, first: Tensor, scalars: Tensor, bias: Tensor, geometry: EdgeGeometry
    ) -> Tensor:
        """Weight of each edge, focus stream and head: (E, F, A)."""
        config = self.config
        n_edges, width = bias.shape[0], config.focus_width
        if f.attention is None:
            weights = geometry.radial.weight[:, None, None].expand(-1, config.n_focus, 1)
        else:
            normed = rms(scalars.reshape(-1, config.n_focus, width)).transpose(0, 1)
            heads = (-1, config.n_focus, config.n_heads, width // config.n_heads)
            query = (normed @ f.attention.query).transpose(0, 1).reshape(heads)
            key = (normed @ f.attention.key).transpose(0, 1).reshape(heads)
            weights = attention_weights(
                query, key, bias.reshape(n_edges, config.n_focus, config.n_heads),
                geometry.radial.weight, f.attention.offset, geometry.edges,
                fused=geometry.packed is not None,
            )  # fmt: skip
        if f.focus is None:
            return weights
        scalar = first[:, :, :width]
        scalar = rms(scalar) if config.edge_norm else scalar
        score = (scalar @ f.focus.unsqueeze(2)).squeeze(2)  # (F, E)
        share = torch.softmax(score, dim=0) * 0.98 + 0.02 / config.n_focus
        return weights * share.T.unsqueeze(2)

    def _gate(self, f: SO2Weights, scalars: Tensor, geometry: EdgeGeometry) -> Tensor:
        """Factor on the sums: (N, Hh), or the degree factor without attention (N, 1)."""
        config = self.config
        if f.attention is None:
            return geometry.degree_factor.unsqueeze(1)
        normed = rms(scalars.reshape(-1, config.n_focus, config.focus_width)).transpose(0, 1)
        gate = torch.sigmoid(normed @ f.attention.gate).transpose(0, 1)  # (N, F, A)
        width = config.focus_width // config.n_heads
        return gate.unsqueeze(3).expand(-1, -1, -1, width).reshape(-1, config.hidden)


def _each(streams: list[Tensor], matrices: list[Tensor], fused: bool) -> list[Tensor]:
    """Multiply the features of each order by its matrix."""
    return [edge_matmul(y, w, fused=fused) for y, w in zip(streams, matrices, strict=True)]
