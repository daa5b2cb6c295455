"""ModelSpec: what a model is, as plain values. Read from GGUF metadata and tensor shapes, or refused by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

RopeMode = Literal["norm", "neox"]  # pairs (2i, 2i+1), or (i, i + dimensions/2)
Activation = Literal["silu", "gelu", "sigmoid", "swiglu_oai", "linear"]
QKNorm = Literal["none", "head", "row", "plain"]  # RMS norm of q and k: of each head, of all together; without weights
NormPlacement = Literal["before", "both", "after"]  # of a block's norms: on its input, on its output
Gating = Literal["softmax", "sigmoid"]


@dataclass(frozen=True, slots=True)
class TensorShape:
    """A weight as the file holds it: `count` stacked matrices of [rows, cols]; vectors have one row."""

    name: str
    type_id: int
    type_name: str
    rows: int
    cols: int
    count: int
    nbytes: int
    source: str = ""  # the file's tensor that this is a part of; "": `name` itself
    offset: int = 0  # of the part, in bytes

    def part(self, name: str, first: int, rows: int) -> TensorShape:
        """Rows `first` … of this matrix as a tensor of their own."""
        row_bytes = self.nbytes // self.rows
        return replace(self, name=name, rows=rows, nbytes=rows * row_bytes, source=self.name, offset=first * row_bytes)


@dataclass(frozen=True, slots=True)
class YarnSpec:
    """YaRN (arXiv:2309.00071): low frequencies are interpolated, high ones kept, with a ramp between."""

    original_context: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    extrapolation: float = 1.0
    log_multiplier: float = 0.0


@dataclass(frozen=True, slots=True)
class Temperature:
    """Queries far into the text are scaled, by 1 + scale × ln(floor((position + offset) / length) + 1)."""

    length: float = 1.0
    scale: float = 0.0
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class RopeSpec:
    """Rotary positions: pair i of `dimensions / 2` turns by position × frequencies()[i]."""

    mode: RopeMode
    dimensions: int
    base: float
    scale: float = 1.0  # linear position scale, 1 / factor; 0: nothing turns
    temperature: Temperature = Temperature()
    attention_factor: float = 1.0
    yarn: YarnSpec | None = None
    factors: tuple[float, ...] = ()  # llama3: each pair's wavelength is multiplied by its factor

    def frequencies(self) -> npt.NDArray[np.float32]:
        """Radians per position, [dimensions / 2] float32."""
        pairs = np.arange(self.dimensions // 2, dtype=np.float64)
        plain = self.base ** (-2.0 * pairs / self.dimensions)
        if self.factors:
            plain = plain / np.asarray(self.factors, dtype=np.float64)
        if self.yarn is None:
            return (plain * self.scale).astype(np.float32)
        keep = self._yarn_ramp(pairs) * self.yarn.extrapolation
        return (plain * (self.scale * (1 - keep) + keep)).astype(np.float32)

    @property
    def magnitude(self) -> float:
        """Factor on cos and sin; YaRN sharpens attention by 1 + 0.1 ln(factor)."""
        if self.yarn is None or self.yarn.extrapolation == 0:
            return self.attention_factor
        factor = 1.0 / self.scale
        return self.attention_factor * yarn_sharpening(factor, 1.0) / yarn_sharpening(factor, self.yarn.log_multiplier)

    def _yarn_ramp(self, pairs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """1 for pairs that turn often within the original context, 0 for those that turn rarely."""
        assert self.yarn is not None

        def pair_with_turns(turns: float) -> float:
            assert self.yarn is not None
            wavelength = self.yarn.original_context / (turns * 2 * math.pi)
            return self.dimensions * math.log(wavelength) / (2 * math.log(self.base))

        low = max(0.0, math.floor(pair_with_turns(self.yarn.beta_fast)))
        high = min(self.dimensions - 1.0, math.ceil(pair_with_turns(self.yarn.beta_slow)))
        return 1.0 - np.clip((pairs - low) / max(0.001, high - low), 0.0, 1.0)


def yarn_sharpening(factor: float, multiplier: float) -> float:
    """By how much YaRN multiplies queries and keys of a context `factor` times as long as trained."""
    return 1.0 if factor <= 1.0 else 1.0 + 0.1 * multiplier * math.log(factor)


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """Grouped-query attention of one layer; `rope` None knows no order.

    `window` 0 sees every earlier position, w the last w positions, its own included, and -c those of its own chunk,
    where a text is cut into chunks of c positions.

    `gated`: the query's matrix holds a gate behind each head's query, whose sigmoid what the head mixes is multiplied
    by.
    """

    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    scale: float
    rope: RopeSpec | None
    qk_norm: QKNorm = "none"
    norm_after_rope: bool = False
    window: int = 0
    gated: bool = False
    soft_cap: float = 0.0  # 0: none
    sinks: bool = False
    temperature: Temperature = Temperature()  # of the queries


@dataclass(frozen=True, slots=True)
class LatentSpec:
    """Multi-head latent attention of one layer, see `engine.models.latent`.

    A head has `plain_dim` values that do not turn and `rope.dimensions` that do; `rank` values are kept of a position
    beside the latter. Queries are compressed to `query_rank` values on the way, or not (0). `split`: k_b and v_b are
    tensors of their own.
    """

    heads: int
    query_rank: int
    rank: int
    plain_dim: int
    value_dim: int
    scale: float
    rope: RopeSpec
    split: bool

    @property
    def kv_heads(self) -> int:
        """All heads see the same row."""
        return 1

    @property
    def key_dim(self) -> int:
        """Values that are kept of a position."""
        return self.rank + self.rope.dimensions


@dataclass(frozen=True, slots=True)
class DeltaNetSpec:
    """Gated delta net of one layer, see `engine.models.delta_net`. `taps`: positions that its convolution sees."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    taps: int
    tiled: bool

    @property
    def inner(self) -> int:
        """Values per token of all value heads."""
        return self.value_heads * self.value_dim

    @property
    def channels(self) -> int:
        """Values per token of all queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.inner


@dataclass(frozen=True, slots=True)
class DenseSpec:
    """down(activation(gate · x) × up · x)."""

    width: int
    activation: Activation = "silu"


@dataclass(frozen=True, slots=True)
class ExpertsSpec:
    """`used` of `count` gated feed-forward blocks per token, mixed by the router's weights; beside them perhaps
    `shared`, which every token goes through. Where `groups` is above 1, only experts of the `groups_used` best groups
    are chosen. `weighs_input`: a weight multiplies what an expert reads, not what it makes; of one expert per token."""

    count: int
    used: int
    width: int
    gating: Gating = "softmax"
    normalise: bool = True  # the chosen experts' weights are scaled to sum 1
    weight_scale: float = 1.0
    activation: Activation = "silu"
    groups: int = 1
    groups_used: int = 1
    weighs_input: bool = False
    shared: DenseSpec | None = None


@dataclass(frozen=True, slots=True)
class LayerSpec:
    attention: AttentionSpec | LatentSpec | DeltaNetSpec
    feed_forward: DenseSpec | ExpertsSpec


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Everything that the graph needs to know about a model."""

    architecture: str
    name: str
    path: str
    width: int  # values per token between the layers
    vocabulary_size: int
    context_length: int  # as trained
    norm_epsilon: float
    layers: tuple[LayerSpec, ...]
    tensors: Mapping[str, TensorShape]
    tied_output: bool  # the output projection is the embedding table
    norms: NormPlacement = "before"
    ffn_norm: str = "ffn_norm"
    embedding_scale: float = 1.0
    residual_scale: float = 1.0  # of what a block adds
    logit_scale: float = 1.0
    final_soft_cap: float = 0.0  # 0: none
    warnings: tuple[str, ...] = ()

    @property
    def parameters(self) -> int:
        return sum(t.rows * t.cols * t.count for t in self.tensors.values())

    @property
    def weight_bytes(self) -> int:
        return sum(t.nbytes for t in self.tensors.values())
