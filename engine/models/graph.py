"""Graph: a forward pass as a short list of operations over named values. Knows nothing of devices.

Every value is float32 [tokens, width]; after SelectRows it is [outputs, width]. A value is written once, except
that Rope, Scale and SoftCap work in place. Operations name weights by their tensor in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from engine.models.spec import Activation, Gating, RopeSpec, TensorShape


@dataclass(frozen=True, slots=True)
class Op:
    """`item` names the placement item that the operation belongs to, such as "blk.3.attn".

    READS and WRITES name the fields that hold values; in-place operations have their value in both.
    """

    READS: ClassVar[tuple[str, ...]] = ("x",)
    WRITES: ClassVar[tuple[str, ...]] = ("out",)

    item: str

    @property
    def reads(self) -> tuple[str, ...]:
        return self._values(self.READS)

    @property
    def writes(self) -> tuple[str, ...]:
        return self._values(self.WRITES)

    def _values(self, fields: tuple[str, ...]) -> tuple[str, ...]:
        held = (getattr(self, name) for name in fields)
        return tuple(value for values in held for value in ((values,) if isinstance(values, str) else values))


@dataclass(frozen=True, slots=True)
class Embed(Op):
    READS = ()

    table: str
    out: str


@dataclass(frozen=True, slots=True)
class RMSNorm(Op):
    """`weight` "" stands for ones. `group` 0 normalises the whole row, otherwise every `group` values apart; with
    `groups`, only so many of these, and the rest of the row is copied."""

    x: str
    weight: str
    out: str
    epsilon: float
    group: int = 0
    groups: int = 0


@dataclass(frozen=True, slots=True)
class Linear(Op):
    """Several matrices over one input; a bias is "" where there is none."""

    WRITES = ("outs",)

    x: str
    weights: tuple[str, ...]
    biases: tuple[str, ...]
    outs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HeadLinear(Op):
    """A product per head, of its leading values with its own rows of `weight`; the rest of a head is copied behind it.

    Head h has the `rows` rows from h × (all rows / heads) + first on, W_h; out = W_h x, or transposed W_hᵀ x.
    """

    x: str
    weight: str
    out: str
    heads: int
    first: int
    rows: int
    transposed: bool = False


@dataclass(frozen=True, slots=True)
class Rope(Op):
    """Turns the values of each head from `offset` on, as many as `rope` has dimensions."""

    WRITES = ("x",)

    x: str
    heads: int
    head_dim: int
    rope: RopeSpec
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Attention(Op):
    """Stores k and v in the cache of `layer`, then attends over it. A latent layer has its k as v, too.

    `soft_cap` c turns scores s into c tanh(s / c); 0: none. `sinks` names a vector of one logit per head that takes
    part in the softmax as a key without a value would; "": none.
    """

    READS = ("q", "k", "v")

    q: str
    k: str
    v: str
    layer: int
    out: str
    heads: int
    scale: float
    window: int
    soft_cap: float = 0.0
    sinks: str = ""


@dataclass(frozen=True, slots=True)
class SplitHeads(Op):
    """Consecutive parts of every head of x, of `sizes` values, go to `outs`; parts with the same out follow each other
    there, each with all its heads."""

    WRITES = ("outs",)

    x: str
    outs: tuple[str, ...]
    sizes: tuple[int, ...]
    heads: int


@dataclass(frozen=True, slots=True)
class ShortConv(Op):
    """silu of a convolution over the last few positions, each channel by itself; `layer` keeps the last inputs."""

    x: str
    weight: str
    out: str
    layer: int


@dataclass(frozen=True, slots=True)
class DeltaRule(Op):
    """The gated delta rule (arXiv:2412.06464) over `layer`'s state; x holds all heads' queries, keys, then values.

    `tiled`: value head h belongs to key head h % key_heads, else to h / (value_heads / key_heads).
    """

    READS = ("x", "alpha", "beta")

    x: str
    alpha: str
    beta: str
    weights: tuple[str, str]  # a, dt: one value per value head each
    layer: int
    out: str
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    tiled: bool
    epsilon: float


@dataclass(frozen=True, slots=True)
class GLU(Op):
    """activation(gate) × up. The gate may be narrower: each of its values then stands for as many neighbours of up."""

    READS = ("gate", "up")

    gate: str
    up: str
    out: str
    activation: Activation


@dataclass(frozen=True, slots=True)
class Router(Op):
    """Chooses `top_k` experts per token: ids and weights, both [tokens, top_k].

    `bias` ("" for none) is added to an expert's gate where experts are chosen, not to its weight. With `groups`, only
    experts of those `groups_used` groups are chosen whose two best add up to most.
    """

    READS = ("logits",)
    WRITES = ("ids", "weights")

    logits: str
    ids: str
    weights: str
    top_k: int
    gating: Gating
    normalise: bool
    scale: float
    bias: str = ""
    groups: int = 1
    groups_used: int = 1


@dataclass(frozen=True, slots=True)
class Experts(Op):
    """The mix of each token's experts. `biases`: of gate, up and down, stacked alike, or none."""

    READS = ("x", "ids", "mix")

    x: str
    ids: str
    mix: str
    gate: str
    up: str
    down: str
    out: str
    activation: Activation
    biases: tuple[str, ...] = ()

    @property
    def tensors(self) -> tuple[str, ...]:
        """What one expert's share of is one expert: gate, up, down and their biases."""
        return self.gate, self.up, self.down, *self.biases

    def renamed(self, name: Callable[[str], str]) -> Experts:
        """The same over other tensors."""
        gate, up, down, *biases = map(name, self.tensors)
        return replace(self, gate=gate, up=up, down=down, biases=tuple(biases))


@dataclass(frozen=True, slots=True)
class Add(Op):
    READS = ("a", "b")

    a: str
    b: str
    out: str


@dataclass(frozen=True, slots=True)
class Scale(Op):
    """x times `factor`, in place."""

    WRITES = ("x",)

    x: str
    factor: float


@dataclass(frozen=True, slots=True)
class SoftCap(Op):
    """cap tanh(x / cap), in place."""

    WRITES = ("x",)

    x: str
    cap: float


@dataclass(frozen=True, slots=True)
class SelectRows(Op):
    """Keeps the rows whose logits the batch asks for."""

    x: str
    out: str


@dataclass(frozen=True, slots=True)
class KVLayer:
    """What one layer keeps per position: `kv_heads` keys of `key_dim` and values of `value_dim`.

    In a latent layer, a key's first `value_dim` values are the value as well. `window`: as an AttentionSpec's.
    """

    kv_heads: int
    key_dim: int
    value_dim: int
    window: int = 0
    latent: bool = False

    @property
    def rows(self) -> tuple[int, ...]:
        """Values per position and head of each array that is kept."""
        return (self.key_dim,) if self.latent else (self.key_dim, self.value_dim)


WINDOWS_KEPT = 2  # of a layer with a window: what an answer sees, and what one can return to
_WINDOW_SLACK = 64  # positions more than the window: its ends lie within blocks, and small steps back are possible
MOST_STEP_TOKENS = 512  # that one step adds to all sequences together


def first_seen(position: int, window: int) -> int:
    """The first position that a query at `position` sees; see AttentionSpec."""
    if window < 0:
        return position // -window * -window
    return max(0, position - window + 1) if window else 0


def positions_kept(window: int, context: int) -> int:
    """Positions that layers with this window have room for, in all sequences together."""
    return min(context, WINDOWS_KEPT * (abs(window) + _WINDOW_SLACK) + MOST_STEP_TOKENS) if window else context


STATE_SLOTS = 4  # of a recurrent layer: a sequence reads one and writes one; two more can be returned to


@dataclass(frozen=True, slots=True)
class StateLayer:
    """What a recurrent layer keeps of a whole sequence, in float32: the last inputs of its convolution, its state."""

    tail_values: int
    state_values: int


@dataclass(frozen=True, slots=True)
class Graph:
    """`values` gives each value's width, `weights` each tensor used, `kv_layers` what each layer remembers."""

    ops: tuple[Op, ...]
    values: Mapping[str, int]
    weights: Mapping[str, TensorShape]
    kv_layers: tuple[KVLayer | StateLayer, ...]
    logits: str

    @property
    def windows(self) -> tuple[int, ...]:
        return windows_of(self.kv_layers)


def windows_of(layers: Iterable[KVLayer | StateLayer]) -> tuple[int, ...]:
    """By number of the block table that layers share which forget alike: what they see. Table 0 forgets nothing."""
    return (0, *sorted({layer.window for layer in layers if isinstance(layer, KVLayer)} - {0}))


def op_weights(op: object) -> list[str]:
    """Tensors that an operation reads."""
    names: list[str] = []
    for attribute in ("table", "weight", "bias", "sinks", "gate", "up", "down"):
        if attribute in ("gate", "up", "down") and not isinstance(op, Experts):
            continue
        name = getattr(op, attribute, "")
        if name:
            names.append(name)
    names += [name for attribute in ("weights", "biases") for name in _names(op, attribute)]
    return names


def _names(op: object, attribute: str) -> list[str]:
    found = getattr(op, attribute, ())
    return [name for name in found if name] if isinstance(found, tuple) else []
