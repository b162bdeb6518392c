"""Parameter inventory: the exact name and shape of every parameter of a DPA4 model."""

from collections.abc import Iterator

from md_gie.model.config import DPA4Config

Shape = tuple[int, ...]

FLOAT64_PARAMETERS = ("out_bias", "fitting_net.bias_atom_e")
"""Energy shifts; they stay in float64 whatever the dtype of the network."""


def parameter_shapes(config: DPA4Config) -> dict[str, Shape]:
    """Names (as in a checkpoint, without the branch prefix) and shapes of all parameters."""
    shapes: dict[str, Shape] = {
        "out_bias": (1, config.n_types, 1),
        "fitting_net.bias_atom_e": (config.n_types, 1),
    }
    shapes.update({f"descriptor.{name}": shape for name, shape in _embedding(config)})
    for block in range(len(config.degrees)):
        prefix = f"descriptor.blocks.{block}."
        shapes.update({prefix + name: shape for name, shape in _block(config, block)})
    shapes.update({f"descriptor.{name}": shape for name, shape in _readout(config)})
    shapes.update(
        {f"fitting_net.filter_layers.networks.0.{name}": shape for name, shape in _fitting(config)}
    )
    return shapes


def environment_sizes(config: DPA4Config) -> tuple[int, int, int, int, int]:
    """Widths of the environment seed: embedding Ed, type Td, axis, radial Rd, hidden Hd."""
    embedding = min(config.channels, 128)
    type_width = min(32, max(8, config.channels // 4))
    axis = min(4 if embedding < 64 else 8, max(1, embedding - 1))
    radial = max(32, embedding - 2 * type_width)
    hidden = min(256, max(2 * embedding, radial + 2 * type_width))
    return embedding, type_width, axis, radial, hidden


def kernel_entries(degree: int, order: int) -> int:
    """Count the (l_in, l_out) entries of the radial kernel over all orders m."""
    return sum((degree - m + 1) ** 2 for m in range(order + 1))


def last_radial_layer(config: DPA4Config) -> str:
    """Name of the last matrix of the radial network; a norm takes a slot of its own."""
    return f"radial_embedding.net.{3 if config.edge_norm else 2}.matrix"


def _embedding(config: DPA4Config) -> Iterator[tuple[str, Shape]]:
    c, t, nr, w = config.channels, config.n_types, config.n_radial, config.radial_width
    yield "type_embedding.adam_type_embedding", (t + 1, c)
    yield "radial_basis.adam_freqs", (1, nr)
    yield "radial_embedding.net.0.matrix", (nr, w)
    if config.edge_norm:
        yield "radial_embedding.net.1.adam_scale", (w,)
    yield last_radial_layer(config), (w, (config.lmax + 1) * c)
    if not config.use_env_seed:
        return
    ed, td, axis, rd, hd = environment_sizes(config)
    seed = "env_seed_embedding."
    yield seed + "rbf_proj_layer1.matrix", (nr, rd)
    yield seed + "rbf_proj_layer2.matrix", (rd, rd)
    yield seed + "env_type_embed.adam_type_embedding", (t + 1, td)
    yield seed + "g_layer1.matrix", (rd + 2 * td, hd)
    yield seed + "g_layer2.matrix", (hd, ed)
    yield seed + "output_proj.matrix", (ed * axis, 2 * c)
    yield "film_scale_strength_log", (1,)
    yield "film_shift_strength_log", (1,)
    if config.edge_norm:
        yield "film_scale_norm.adam_scale", (1, c)
        yield "film_shift_norm.adam_scale", (1, c)


def _block(config: DPA4Config, block: int) -> Iterator[tuple[str, Shape]]:
    degree, c = config.degrees[block], config.channels
    norm: list[tuple[str, Shape]] = [("adam_scale", (degree + 1, 1, c)), ("bias", (1, c))]
    pre_so2, post_so2, pre_ffn, post_ffn = config.sandwich_norm
    names = ["pre_so2_norm"] * pre_so2 + ["post_so2_norm"] * post_so2
    for i in range(config.ffn_blocks):
        names += [f"pre_ffn_norms.{i}"] * pre_ffn + [f"post_ffn_norms.{i}"] * post_ffn
    for name in names:
        yield from ((f"{name}.{suffix}", shape) for suffix, shape in norm)
    for name, shape in _so2_convolution(config, degree, config.orders[block]):
        yield f"so2_conv.{name}", shape
    for i in range(config.ffn_blocks):
        for name, shape in _ffn(config, degree):
            yield f"ffns.{i}.{name}", shape


def _so2_convolution(config: DPA4Config, degree: int, order: int) -> Iterator[tuple[str, Shape]]:
    c, f, w, h, heads = (
        config.channels, config.n_focus, config.focus_width, config.hidden, config.n_heads,
    )  # fmt: skip
    yield "pre_focus_mix.weight", (degree + 1, c, h)
    yield "post_focus_mix.weight", (degree + 1, h, c)
    if h != c:
        yield "radial_hidden_proj.weight", (c, h)
    if config.radial_so2_mode != "none":
        rank = config.radial_so2_rank
        per_entry = 1 if config.radial_so2_mode == "degree" else rank or h
        entries = kernel_entries(degree, order)
        yield "radial_degree_mixer.weight", ((degree + 1) * h, entries * per_entry)
        if config.radial_so2_mode == "degree_channel" and rank:
            yield "radial_degree_mixer.channel_basis", (rank, h)
    for k in range(config.mixing_layers):
        rows = degree + 1
        yield f"so2_linears.{k}.weight_m0", (rows * w, f * rows * w)
        for m in range(1, order + 1):
            rows = degree - m + 1
            yield f"so2_linears.{k}.weight_m.{m - 1}", (rows * w, f * 2 * rows * w)
        if k < config.mixing_layers - 1:
            yield f"non_linearities.{k}.gate_linear.weight", (w, f * degree * w)
    if heads:
        yield "attn_qk_norm.adam_scale", (f, w)
        yield "attn_output_gate_norm.adam_scale", (f, w)
        yield "attn_q_proj.weight", (w, f * w)
        yield "attn_k_proj.weight", (w, f * w)
        yield "adamw_attn_logit_w", (w, f, heads)
        yield "adamw_attn_gate_w", (w, f, heads)
        yield "adamw_attn_z_bias_raw", (f, heads)
    if f > 1:
        yield "adamw_focus_compete_w", (w, f)
        if config.edge_norm:
            yield "focus_compete_norm.adam_scale", (f, w)
    if config.message_node_so3:
        frames = 2 * min(config.kmax, degree) + 1
        product = "message_node_grid_product."
        yield product + "frame_expand.weight", (degree + 1, w, frames * w)
        yield product + "frame_contract.weight", (degree + 1, frames * w, w)
        yield product + "scalar_gate.weight", (2 * w, f * w)
        yield product + "residual_scale", (f, w)


def _ffn(config: DPA4Config, degree: int) -> Iterator[tuple[str, Shape]]:
    c, g = config.channels, config.ffn_width
    if config.ffn_kind in ("so3", "s2"):
        kmax = min(config.kmax, degree) if config.ffn_kind == "so3" else 0
        yield from _grid_ffn(degree, c, g, kmax, config.ffn_operation)
    else:
        yield "so3_linear_1.weight", (degree + 1, c, 2 * g if config.ffn_kind == "glu" else g)
        yield "act.gate_linear.weight", (g, degree * g)
        yield "so3_linear_2.weight", (degree + 1, g, c)


def _grid_ffn(degree: int, c: int, g: int, kmax: int, op: str) -> Iterator[tuple[str, Shape]]:
    frames = 2 * kmax + 1
    yield "so3_linear_1.weight", (degree + 1, c, 2 * frames * g)
    yield "act.scalar_gate.weight", (2 * g, g)
    if op == "mlp":
        yield "act.grid_op.left_proj.weight", (2 * g, 2 * g)
        yield "act.grid_op.right_proj.weight", (2 * g, 2 * g)
        yield "act.grid_op.out_proj.weight", (2 * g, g)
    elif op == "branch":
        yield "act.grid_op.left_proj.weight", (g, g)
        yield "act.grid_op.right_proj.weight", (g, g)
        yield "act.grid_op.out_proj.weight", (g, g)
        yield "act.grid_op.router.weight", (2 * g, 1)
    yield "so3_linear_2.weight", (degree + 1, frames * g, c)


def _readout(config: DPA4Config) -> Iterator[tuple[str, Shape]]:
    names = [f"readout_pre_layers.{i}" for i in range(config.readout_layers - 1)] + ["output_ffn"]
    degree, c, g = config.readout_degree, config.channels, config.readout_width
    for name in names:
        if config.readout == "none":
            yield f"{name}.so3_linear_1.weight", (1, c, 2 * g if config.glu else g)
            yield f"{name}.so3_linear_2.weight", (1, g, c)
        else:
            op = "mlp" if config.readout == "mlp" else "product"
            kmax = min(config.kmax, degree)
            for suffix, shape in _grid_ffn(degree, c, g, kmax, op):
                yield f"{name}.{suffix}", shape


def _fitting(config: DPA4Config) -> Iterator[tuple[str, Shape]]:
    width = config.channels
    for i, w in enumerate(config.fitting_widths):
        yield f"hidden_layers.{i}.linear.matrix", (width, 2 * w)
        yield f"hidden_layers.{i}.linear.bias", (2 * w,)
        width = w
    yield "output_layer.matrix", (width, 1)
