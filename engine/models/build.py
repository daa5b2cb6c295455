"""ModelSpec → Graph: the forward pass of a transformer, block by block.

x = embed(tokens)
each layer:  x = x + attention(norm(x));  x = x + feed_forward(norm(x))
logits = output(norm(x)), only for the rows that are asked for

Norms may also stand behind a block, or only there; see spec.NormPlacement.
"""

from __future__ import annotations

from dataclasses import replace

from engine.errors import FormatError, UnsupportedError
from engine.gguf import QuantType
from engine.models.delta_net import delta_net
from engine.models.graph import (
    GLU,
    Add,
    Attention,
    Embed,
    Experts,
    Graph,
    KVLayer,
    Linear,
    Op,
    RMSNorm,
    Rope,
    Router,
    Scale,
    SelectRows,
    SoftCap,
    SplitHeads,
    StateLayer,
)
from engine.models.latent import latent_attention
from engine.models.spec import (
    AttentionSpec,
    DeltaNetSpec,
    DenseSpec,
    ExpertsSpec,
    LatentSpec,
    ModelSpec,
    RopeSpec,
    Temperature,
    TensorShape,
)


def build_graph(spec: ModelSpec) -> Graph:
    """The graph of `spec`. Every tensor's shape is checked, and every tensor of the file must have a use."""
    b = Builder(spec)
    b.item = "embedding"
    x = b.scale(b.embed("token_embd.weight", spec.vocabulary_size), spec.embedding_scale)
    last = len(spec.layers) - 1
    for index, layer in enumerate(spec.layers):
        x = _attention(b, index, layer.attention, x, select=index == last)
        x = _feed_forward(b, index, layer.feed_forward, x)
    b.item = "output"
    x = b.rms_norm(x, "output_norm.weight", "output_norm")
    output = "token_embd" if spec.tied_output else "output"
    (logits,) = b.linear(x, {output: ("logits", spec.vocabulary_size)})
    b.scale(logits, spec.logit_scale)
    if spec.final_soft_cap:
        b.add_op(SoftCap(b.item, logits, spec.final_soft_cap))
    return b.finish(logits)


def _attention(b: Builder, index: int, spec: AttentionSpec | LatentSpec | DeltaNetSpec, x: str, *, select: bool) -> str:
    """x + attention(norm(x)). In the last layer only the rows asked for go on (`select`)."""
    blk = f"blk.{index}"
    b.item = f"{blk}.attn"
    normed = b.norm_before(x, f"{blk}.attn_norm")
    output = f"{blk}.attn_output"
    if isinstance(spec, LatentSpec):
        mixed = latent_attention(b, index, spec, normed, select=select)
    elif isinstance(spec, DeltaNetSpec):
        mixed, output = delta_net(b, index, spec, normed, select=select), f"{blk}.ssm_out"
    else:
        mixed = _grouped_attention(b, index, spec, normed, select=select)
    x = b.select_rows(x) if select else x
    (out,) = b.linear(mixed, {output: (f"{blk}.attn_out", b.spec.width)})
    return b.add_block(x, out, f"{blk}.post_attention_norm", f"{blk}.attn_residual")


def _grouped_attention(b: Builder, index: int, spec: AttentionSpec, normed: str, *, select: bool) -> str:
    """The layer's attention over `normed`, before its output projection."""
    blk = f"blk.{index}"
    key_width, value_width = spec.kv_heads * spec.key_dim, spec.kv_heads * spec.value_dim
    q, k, v = b.linear(
        normed,
        {
            f"{blk}.attn_q": (f"{blk}.q", spec.heads * spec.key_dim * (2 if spec.gated else 1)),
            f"{blk}.attn_k": (f"{blk}.k", key_width),
            f"{blk}.attn_v": (f"{blk}.v", value_width),
        },
    )
    gate = ""
    if spec.gated:
        q, gate = b.split_heads(q, {f"{blk}.query": spec.key_dim, f"{blk}.query_gate": spec.key_dim}, spec.heads)
    if spec.norm_after_rope:
        _rotate(b, spec, q, k)
    if spec.qk_norm == "plain":
        q = b.plain_norm(q, f"{blk}.q_normed", spec.key_dim)
        k = b.plain_norm(k, f"{blk}.k_normed", spec.key_dim)
    elif spec.qk_norm != "none":
        group = spec.key_dim if spec.qk_norm == "head" else 0
        q = b.rms_norm(q, f"{blk}.attn_q_norm.weight", f"{blk}.q_normed", group)
        k = b.rms_norm(k, f"{blk}.attn_k_norm.weight", f"{blk}.k_normed", group)
    if not spec.norm_after_rope:
        _rotate(b, spec, q, k)
    mixed = b.value(f"{blk}.attn_mixed", spec.heads * spec.value_dim)
    b.kv_layers.append(KVLayer(spec.kv_heads, spec.key_dim, spec.value_dim, spec.window))
    sinks = b.vector(f"{blk}.attn_sinks.weight", spec.heads) if spec.sinks else ""
    b.add_op(Attention(b.item, q, k, v, index, mixed, spec.heads, spec.scale, spec.window, spec.soft_cap, sinks))
    if select:
        mixed, gate = b.select_rows(mixed), gate and b.select_rows(gate)
    if not gate:
        return mixed
    opened = b.value(f"{blk}.attn_opened", spec.heads * spec.value_dim)
    b.add_op(GLU(b.item, gate, mixed, opened, "sigmoid"))
    return opened


def _rotate(b: Builder, spec: AttentionSpec, q: str, k: str) -> None:
    turn = spec.rope or RopeSpec("norm", spec.key_dim, 1.0, scale=0.0)
    if spec.rope is not None or spec.temperature != Temperature():
        b.add_op(Rope(b.item, q, spec.heads, spec.key_dim, replace(turn, temperature=spec.temperature)))
    if spec.rope is not None:
        b.add_op(Rope(b.item, k, spec.kv_heads, spec.key_dim, turn))


def _feed_forward(b: Builder, index: int, spec: DenseSpec | ExpertsSpec, x: str) -> str:
    blk = f"blk.{index}"
    b.item = f"{blk}.ffn"
    normed = b.norm_before(x, f"{blk}.{b.spec.ffn_norm}")
    out = _dense(b, blk, spec, normed) if isinstance(spec, DenseSpec) else _experts(b, blk, spec, normed)
    return b.add_block(x, out, f"{blk}.post_ffw_norm", f"{blk}.ffn_residual")


def _dense(b: Builder, blk: str, spec: DenseSpec, x: str, ending: str = "") -> str:
    """down(activation(gate · x) × up · x). `ending` is that of its tensors' and values' names."""
    names = {part: f"{blk}.ffn_{part}{ending}" for part in ("gate", "up", "hidden", "down", "out")}
    gate, up = b.linear(x, {names[part]: (names[part], spec.width) for part in ("gate", "up")})
    hidden = b.value(names["hidden"], spec.width)
    b.add_op(GLU(b.item, gate, up, hidden, spec.activation))
    (out,) = b.linear(hidden, {names["down"]: (names["out"], b.spec.width)})
    return out


def _experts(b: Builder, blk: str, spec: ExpertsSpec, x: str) -> str:
    (scores,) = b.linear(x, {f"{blk}.ffn_gate_inp": (f"{blk}.router", spec.count)})
    ids, mix = b.value(f"{blk}.expert_ids", spec.used), b.value(f"{blk}.expert_weights", spec.used)
    bias = b.vector_if_present(f"{blk}.exp_probs_b.bias", spec.count)
    choice = (spec.used, spec.gating, spec.normalise, spec.weight_scale, bias, spec.groups, spec.groups_used)
    b.add_op(Router(b.item, scores, ids, mix, *choice))
    read = x
    if spec.weighs_input:
        read, ids, mix = _weigh_input(b, blk, spec, x, scores, mix)
    b.item = f"{blk}.experts"
    width = b.spec.width
    gate = b.weight(f"{blk}.ffn_gate_exps.weight", spec.width, width, spec.count)
    up = b.weight(f"{blk}.ffn_up_exps.weight", spec.width, width, spec.count)
    down = b.weight(f"{blk}.ffn_down_exps.weight", width, spec.width, spec.count)
    out = b.value(f"{blk}.experts_out", width)
    biases: tuple[str, ...] = ()
    if f"{blk}.ffn_gate_exps.bias" in b.spec.tensors:
        gate_bias = b.vectors(f"{blk}.ffn_gate_exps.bias", spec.width, spec.count)
        up_bias = b.vectors(f"{blk}.ffn_up_exps.bias", spec.width, spec.count)
        biases = gate_bias, up_bias, b.vectors(f"{blk}.ffn_down_exps.bias", width, spec.count)
    b.add_op(Experts(b.item, read, ids, mix, gate, up, down, out, spec.activation, biases))
    b.item = f"{blk}.ffn"
    return b.add(out, _shared_expert(b, blk, spec.shared, x), f"{blk}.ffn_out") if spec.shared else out


def _weigh_input(b: Builder, blk: str, spec: ExpertsSpec, x: str, scores: str, weights: str) -> tuple[str, str, str]:
    """What a token's one expert reads, times its weight; its number; and a mix of one: a single weight, normalised."""
    weighed, ids, mix = (
        b.value(f"{blk}.weighed", b.spec.width),
        b.value(f"{blk}.expert_id", 1),
        b.value(f"{blk}.mix", 1),
    )
    b.add_op(GLU(b.item, weights, x, weighed, "linear"))
    b.add_op(Router(b.item, scores, ids, mix, 1, spec.gating, normalise=True, scale=1.0))
    return weighed, ids, mix


def _shared_expert(b: Builder, blk: str, spec: DenseSpec, x: str) -> str:
    """A feed-forward block that every token goes through; where the file has one, a gate opens it per token."""
    out = _dense(b, blk, spec, x, ending="_shexp")
    gate = f"{blk}.ffn_gate_inp_shexp"
    if f"{gate}.weight" not in b.spec.tensors:
        return out
    (opening,) = b.linear(x, {gate: (f"{blk}.shared_gate", 1)})
    opened = b.value(f"{blk}.shared_opened", b.spec.width)
    b.add_op(GLU(b.item, opening, out, opened, "sigmoid"))
    return opened


class Builder:
    """Collects operations, values and weights; checks each weight against the shape that the spec implies."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.item = ""
        self.kv_layers: list[KVLayer | StateLayer] = []
        self._ops: list[Op] = []
        self._values: dict[str, int] = {}
        self._weights: dict[str, TensorShape] = {}

    def add_op(self, op: Op) -> None:
        self._ops.append(op)

    def value(self, name: str, width: int) -> str:
        assert name not in self._values, name
        self._values[name] = width
        return name

    def weight(self, name: str, rows: int, cols: int, count: int = 1) -> str:
        tensor = self.spec.tensors.get(name)
        if tensor is None:
            raise FormatError(f"{self.spec.path}: the tensor “{name}” is missing.")
        if (tensor.rows, tensor.cols, tensor.count) != (rows, cols, count):
            raise FormatError(
                f"{self.spec.path}: the tensor “{name}” is {tensor.count} × {tensor.rows} × {tensor.cols}, "
                f"but the model needs {count} × {rows} × {cols}."
            )
        self._weights[name] = tensor
        return name

    def vector_if_present(self, name: str, width: int) -> str:
        """As `vector`, or "" where the file has none."""
        return self.vector(name, width) if name in self.spec.tensors else ""

    def vector(self, name: str, width: int) -> str:
        """A norm's weights or a bias; all files keep them as F32, and the kernels read nothing else."""
        return self.vectors(name, width, 1)

    def vectors(self, name: str, width: int, count: int) -> str:
        """Stacked biases."""
        self.weight(name, 1, width, count)
        tensor = self._weights[name]
        if tensor.type_id != QuantType.F32:
            raise UnsupportedError(
                f"{self.spec.path}: the tensor “{name}” is of type {tensor.type_name}, and must be F32.",
                remedy="It may run on the compatibility engine.",
            )
        return name

    def embed(self, table: str, rows: int) -> str:
        out = self.value("embedding", self.spec.width)
        self.add_op(Embed(self.item, self.weight(table, rows, self.spec.width), out))
        return out

    def rms_norm(self, x: str, weight: str, out: str, group: int = 0, groups: int = 0) -> str:
        self.vector(weight, group or self._values[x])
        self.value(out, self._values[x])
        self.add_op(RMSNorm(self.item, x, weight, out, self.spec.norm_epsilon, group, groups))
        return out

    def plain_norm(self, x: str, out: str, group: int) -> str:
        """As `rms_norm`, without weights."""
        self.add_op(RMSNorm(self.item, x, "", self.value(out, self._values[x]), self.spec.norm_epsilon, group))
        return out

    def linear(self, x: str, projections: dict[str, tuple[str, int]]) -> tuple[str, ...]:
        """Each entry: tensor name without ending → (value name, width). A bias is used where the file has one."""
        cols = self._values[x]
        weights, biases, outs = [], [], []
        for stem, (out, width) in projections.items():
            weights.append(self.weight(f"{stem}.weight", width, cols))
            bias = f"{stem}.bias"
            biases.append(self.vector_if_present(bias, width))
            outs.append(self.value(out, width))
        self.add_op(Linear(self.item, x, tuple(weights), tuple(biases), tuple(outs)))
        return tuple(outs)

    def split_heads(self, x: str, parts: dict[str, int], heads: int) -> tuple[str, ...]:
        """Each entry: a new value → how many values of each head it takes."""
        outs = tuple(self.value(out, heads * size) for out, size in parts.items())
        self.add_op(SplitHeads(self.item, x, outs, tuple(parts.values()), heads))
        return outs

    def norm_before(self, x: str, stem: str) -> str:
        """What a block reads: x, normalised unless the model's norms stand behind its blocks."""
        return x if self.spec.norms == "after" else self.rms_norm(x, f"{stem}.weight", stem)

    def add_block(self, x: str, y: str, stem: str, out: str) -> str:
        """x and what a block made of it, normalised with the tensor `stem` where the model has norms behind blocks."""
        if self.spec.norms != "before":
            y = self.rms_norm(y, f"{stem}.weight", stem)
        return self.add(x, self.scale(y, self.spec.residual_scale), out)

    def scale(self, x: str, factor: float) -> str:
        if factor != 1:
            self.add_op(Scale(self.item, x, factor))
        return x

    def add(self, a: str, b: str, out: str) -> str:
        self.value(out, self._values[a])
        self.add_op(Add(self.item, a, b, out))
        return out

    def select_rows(self, x: str) -> str:
        out = self.value(f"{x}.selected", self._values[x])
        self.add_op(SelectRows(self.item, x, out))
        return out

    def finish(self, logits: str) -> Graph:
        unused = sorted(self.spec.tensors.keys() - self._weights.keys())
        if unused:
            more = f" and {len(unused) - 1} more" if len(unused) > 1 else ""
            raise UnsupportedError(
                f"{self.spec.path}: the tensor “{unused[0]}”{more} has no place in the architecture "
                f"“{self.spec.architecture}” as Tessera knows it; leaving it out would change the answers.",
                remedy="It may run on the compatibility engine.",
            )
        return Graph(tuple(self._ops), self._values, self._weights, tuple(self.kv_layers), logits)
