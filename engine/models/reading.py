"""GGUF metadata + tensor shapes → ModelSpec, for the transformers that a Family describes.

Read or refuse: a key is read with its type and a stated default, or it is required; an unknown value of an
enumerated key is refused by name. Where a size in the metadata disagrees with the tensors, the tensors win if they
agree with each other (a warning says so); otherwise the file is refused.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np

from engine.errors import EngineError, FormatError, UnsupportedError
from engine.gguf import GGUFFile, QuantType
from engine.models.family import Family
from engine.models.keys import Keys
from engine.models.spec import (
    AttentionSpec,
    DeltaNetSpec,
    DenseSpec,
    ExpertsSpec,
    Gating,
    LatentSpec,
    LayerSpec,
    ModelSpec,
    QKNorm,
    RopeSpec,
    TensorShape,
    YarnSpec,
)

_ROPE_FACTORS = "rope_freqs.weight"
_EXPERT_APART = re.compile(r"blk\.\d+\.ffn_(gate|up|down)\.\d+\.weight")
_MOST_WINDOW = 2**31 - 1  # as the kernels count positions
_MOST_GROUPS = 32  # of experts, as the kernels count them
_LAYER = re.compile(r"blk\.(\d{1,9})\.")
# llama.cpp's llama_expert_gating_func_type; the third is a softmax over the chosen experts only, which is what a
# softmax over all of them becomes when its weights are normalised.
_GATINGS: dict[int, Gating] = {1: "softmax", 2: "sigmoid", 3: "softmax"}
_SOFTMAX_OF_CHOSEN = 3
_LONG, _SHORT = "rope_factors_long.weight", "rope_factors_short.weight"


class SpecReader:
    """Reads the ModelSpec of a file. FormatError or UnsupportedError name the file and the key or tensor.

    A family whose layers attend in another way has a reader of its own, which overrides `_attention`.
    """

    def __init__(self, family: Family, gguf: GGUFFile) -> None:
        self.family = family
        self.gguf = gguf
        self.keys = Keys(gguf)
        self.tensors = tensor_shapes(gguf, family.ignored_tensors)
        self.warnings: list[str] = []
        self.blocks = self._blocks()
        self.context_length = self.keys.integer("context_length", minimum=1)

    def read(self) -> ModelSpec:
        self._refuse_experts_apart()
        self._refuse_unbuilt()
        embedding = self._tensor("token_embd.weight")
        factors = self._rope_factors()
        return ModelSpec(
            architecture=self.family.architecture,
            name=self.gguf.metadata.string("general.name", "") or self.gguf.path.stem,
            path=str(self.gguf.path),
            width=self._agreed("embedding_length", embedding.cols),
            vocabulary_size=embedding.rows,
            context_length=self.context_length,
            norm_epsilon=self.keys.positive("attention.layer_norm_rms_epsilon"),
            layers=tuple(self._layer(index, factors) for index in range(self.blocks)),
            tensors=self.tensors,
            tied_output="output.weight" not in self.tensors,
            norms=self.family.norms,
            ffn_norm=self.family.ffn_norm,
            embedding_scale=self._embedding_scale(embedding.cols),
            residual_scale=self.keys.positive("residual_scale", 1.0) if self.family.scales else 1.0,
            logit_scale=1 / self.keys.positive("logit_scale") if self.family.scales else 1.0,
            final_soft_cap=self._soft_cap("final_logit_softcapping", self.family.soft_caps[1]),
            warnings=tuple(dict.fromkeys(self.warnings)),
        )

    def _blocks(self) -> int:
        """Layers that run. Extra prediction layers are counted in block_count, stand last, and may not be there."""
        count = self.keys.integer("block_count", minimum=1)
        if count > len(self.tensors):  # a count that is a lie must not cost memory
            raise self._broken(f"block_count is {count}, and the file holds {len(self.tensors)} tensors")
        extra = self.keys.integer("nextn_predict_layers", 0)
        if extra >= count:
            raise self._broken(f"nextn_predict_layers is {extra}, of {count} layers in all")
        if extra:
            self.warnings.append(f"The last {extra} of {count} layers only predict further tokens; they are not used.")
        unused = range(count - extra, count)
        self.tensors = {name: t for name, t in self.tensors.items() if _layer_of(name) not in unused}
        return count - extra

    def _embedding_scale(self, width: int) -> float:
        if self.family.scales:
            return self.keys.positive("embedding_scale", 1.0)
        return math.sqrt(width) if self.family.scaled_embedding else 1.0

    def _soft_cap(self, key: str, default: float) -> float:
        """0 where the family has none."""
        return self.keys.positive(key, default) if default else 0.0

    def _layer(self, index: int, rope_factors: tuple[float, ...]) -> LayerSpec:
        blk = f"blk.{index}"
        self._split_fused(blk)
        attention = self._attention(index, rope_factors)
        if self.family.experts and f"{blk}.ffn_gate_inp.weight" in self.tensors:
            return LayerSpec(attention, self._experts(blk))
        width = self._agreed("feed_forward_length", self._tensor(f"{blk}.ffn_gate.weight").rows, index)
        return LayerSpec(attention, DenseSpec(width, self.family.activation))

    def _split_fused(self, blk: str) -> None:
        """Tensors that hold gate and up in one become two: rows are contiguous, so each is a part of the file."""
        up = self.tensors.get(f"{blk}.ffn_up.weight")
        if up is not None and f"{blk}.ffn_gate.weight" not in self.tensors:
            if up.rows % 2:
                raise self._broken(f"the {up.rows} rows of “{up.name}” do not divide into gate and up")
            half = up.rows // 2
            self.tensors[f"{blk}.ffn_gate.weight"] = up.part(f"{blk}.ffn_gate.weight", 0, half)
            self.tensors[up.name] = up.part(up.name, half, half)

    def _split_qkv(self, blk: str, heads: int, kv_heads: int) -> None:
        """The same for q, k and v."""
        for ending in ("weight", "bias"):
            fused = self.tensors.pop(f"{blk}.attn_qkv.{ending}", None)
            if fused is None:
                continue
            size = fused.rows if ending == "weight" else fused.cols
            if size % (heads + 2 * kv_heads):
                raise self._broken(f"“{fused.name}” of {size} does not divide into {heads} + 2 × {kv_heads} heads")
            first, head = 0, size // (heads + 2 * kv_heads)
            for part, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
                name = f"{blk}.attn_{part}.{ending}"
                self.tensors[name] = fused.part(name, first, count * head)
                first += count * head

    def _attention(self, index: int, rope_factors: tuple[float, ...]) -> AttentionSpec | LatentSpec | DeltaNetSpec:
        blk = f"blk.{index}"
        heads = self.keys.per_layer("attention.head_count", index, self.blocks)
        kv_heads = self.keys.per_layer("attention.head_count_kv", index, self.blocks, default=heads)
        if heads % kv_heads:
            raise self._broken(f"{heads} heads cannot share {kv_heads} key-value heads evenly")
        self._split_qkv(blk, heads, kv_heads)
        key_dim = self._head_dim(f"{blk}.attn_q.weight", 2 * heads if self.family.gated_attention else heads)
        if key_dim != self._head_dim(f"{blk}.attn_k.weight", kv_heads):
            raise self._broken(f"“{blk}.attn_q.weight” and “{blk}.attn_k.weight” disagree on the size of a head")
        window = self._window(index)
        return AttentionSpec(
            heads=heads,
            kv_heads=kv_heads,
            key_dim=self._agreed("attention.key_length", key_dim),
            value_dim=self._agreed("attention.value_length", self._head_dim(f"{blk}.attn_v.weight", kv_heads)),
            scale=self.keys.number("attention.scale", 0.0) or 1.0 / math.sqrt(self._scaled_by(key_dim, heads)),
            rope=self._rope_of(index, window, key_dim, rope_factors),
            qk_norm=self._qk_norm(index),
            norm_after_rope=self.family.norm_after_rope,
            window=window,
            soft_cap=self._soft_cap("attn_logit_softcapping", self.family.soft_caps[0]),
            sinks=self.family.sinks,
            gated=self.family.gated_attention,
        )

    def _qk_norm(self, index: int) -> QKNorm:
        is_there = f"blk.{index}.attn_q_norm.weight" in self.tensors
        return self.family.qk_norm if is_there or not self.family.qk_norm_optional else "none"

    def _scaled_by(self, key_dim: int, heads: int) -> int:
        wide = self.blocks == self.family.wide_scale_layers
        return self._tensor("token_embd.weight").cols // heads if wide else key_dim

    def _window(self, index: int) -> int:
        """How many positions a layer sees; 0: all. The pattern is a period, or a flag per layer."""
        if not self.family.window_period:
            return 0
        size = min(self.keys.integer("attention.sliding_window", self.family.window), _MOST_WINDOW)
        pattern = self.keys.integers("attention.sliding_window_pattern", self.blocks, self.family.window_period)
        if len(set(pattern)) == 1 and pattern[0] > 1:
            return size if (index + 1) % pattern[0] else 0
        return size if pattern[index] else 0

    def _rope_of(self, index: int, window: int, key_dim: int, factors: tuple[float, ...]) -> RopeSpec | None:
        period = self.family.unrotated_period
        if period and (index + 1) % period == 0:
            return None
        rope = self._rope(key_dim, factors)
        if not window:
            return rope
        base = self.keys.positive("rope.freq_base_swa", self.family.window_rope_base or rope.base)
        if not self.family.window_rope_scaled:
            rope = replace(rope, scale=1.0, yarn=None, attention_factor=1.0)
        return replace(rope, base=base)

    def _experts(self, blk: str) -> ExpertsSpec:
        if (both := f"{blk}.ffn_gate_up_exps.weight") in self.tensors:
            raise UnsupportedError(
                f"{self.gguf.path.name}: “{both}” holds gate and up of the experts, which is not supported.",
                remedy="It may run on the compatibility engine.",
            )
        gate = self._tensor(f"{blk}.ffn_gate_exps.weight")
        used = self.keys.integer("expert_used_count", minimum=1)
        if used > gate.count:
            raise self._broken(f"{used} experts are used per token, but there are only {gate.count}")
        gating = self.keys.integer("expert_gating_func", 0)
        if gating and gating not in _GATINGS:
            raise UnsupportedError(f"{self.gguf.path.name}: expert_gating_func is {gating}, which is not known.")
        groups, groups_used = self._expert_groups(gate.count, used)
        return ExpertsSpec(
            count=self._agreed("expert_count", gate.count),
            used=used,
            width=gate.rows,
            gating=_GATINGS.get(gating, self._default_gating()),
            normalise=gating == _SOFTMAX_OF_CHOSEN
            or self.keys.flag("expert_weights_norm", self.family.normalise_experts),
            weight_scale=self.keys.number("expert_weights_scale", 0.0) or 1.0,
            activation=self.family.activation,
            groups=groups,
            groups_used=groups_used,
            shared=self._shared_expert(blk),
        )

    def _default_gating(self) -> Gating:
        return self.family.gating

    def _expert_groups(self, experts: int, used: int) -> tuple[int, int]:
        """Groups of experts, and how many of them a token's experts may come from."""
        groups = self.keys.integer("expert_group_count", 0) or 1
        if groups == 1:
            return 1, 1
        groups_used = self.keys.integer("expert_group_used_count", minimum=1)
        if groups > _MOST_GROUPS or experts % groups or experts < 2 * groups:
            raise self._broken(f"expert_group_count is {groups}, for {experts} experts")
        if groups_used > groups or groups_used * (experts // groups) < used:
            raise self._broken(f"expert_group_used_count is {groups_used} of {groups}, for {used} experts per token")
        return groups, groups_used

    def _shared_expert(self, blk: str) -> DenseSpec | None:
        up = self.tensors.get(f"{blk}.ffn_up_shexp.weight")
        return DenseSpec(up.rows, self.family.activation) if up else None

    def _rope(self, key_dim: int, factors: tuple[float, ...]) -> RopeSpec:
        keys = self.keys
        dimensions = keys.integer("rope.dimension_count", key_dim)
        if dimensions % 2 or not 0 < dimensions <= key_dim:
            raise self._broken(f"rope.dimension_count is {dimensions}, but a head has {key_dim} values")
        if factors and len(factors) != dimensions // 2:
            raise self._broken(f"the tensor of rotary factors has {len(factors)} values for {dimensions // 2} pairs")
        scaling = keys.text("rope.scaling.type", "linear")
        if scaling not in ("none", "linear", "yarn") and not (scaling == "longrope" and factors):
            raise UnsupportedError(
                f"{self.gguf.path.name}: rope.scaling.type is “{scaling}”, which is not supported.",
                remedy="It may run on the compatibility engine.",
            )
        factor = keys.number("rope.scaling.factor", keys.number("rope.scale_linear", 0.0)) or 1.0
        rope = RopeSpec(
            mode=self.family.rope_mode,
            dimensions=dimensions,
            base=keys.positive("rope.freq_base", 10000.0),
            scale=1.0 if scaling == "none" else 1.0 / factor,
            attention_factor=keys.positive("rope.scaling.attn_factor", 1.0),
            yarn=self._yarn() if scaling == "yarn" else None,
            factors=factors,
        )
        with np.errstate(all="ignore"):
            if not np.isfinite(rope.frequencies()).all():
                raise self._broken(f"rope.freq_base {rope.base:g} and factor {factor:g} give frequencies without end")
        return rope

    def _yarn(self) -> YarnSpec:
        keys = self.keys
        return YarnSpec(
            original_context=keys.integer("rope.scaling.original_context_length", self.context_length, minimum=1),
            beta_fast=keys.positive("rope.scaling.yarn_beta_fast", 32.0),
            beta_slow=keys.positive("rope.scaling.yarn_beta_slow", 1.0),
            extrapolation=keys.number("rope.scaling.yarn_ext_factor", 1.0),
            log_multiplier=keys.number("rope.scaling.yarn_log_multiplier", 0.0),
        )

    def _rope_factors(self) -> tuple[float, ...]:
        """Wavelength factors: llama3's, or LongRoPE's; the tensors are consumed here and never reach the graph.

        LongRoPE has two sets: one for contexts up to the original length, one for longer ones. The first is used, and
        the context ends there.
        """
        if self.tensors.pop(_LONG, None) is None and _SHORT not in self.tensors:
            return self._factors(_ROPE_FACTORS)
        original = self.keys.integer("rope.scaling.original_context_length", minimum=1)
        if original < self.context_length:
            self.warnings.append(
                f"Its factors for contexts above {original} tokens are not used: the context ends there."
            )
            self.context_length = original
        return self._factors(_SHORT)

    def _factors(self, name: str) -> tuple[float, ...]:
        tensor = self.tensors.pop(name, None)
        if tensor is None:
            return ()
        if tensor.type_id != QuantType.F32:
            raise UnsupportedError(f"{self.gguf.path.name}: “{name}” is not of type F32.")
        values = np.frombuffer(self.gguf.buffer(name), dtype="<f4")
        if not np.all(np.isfinite(values)) or not np.all(values > 0):
            raise self._broken(f"“{name}” holds a value that is not above zero")
        return tuple(float(value) for value in values)

    def _head_dim(self, name: str, heads: int) -> int:
        rows = self._tensor(name).rows
        if rows % heads:
            raise self._broken(f"the {rows} rows of “{name}” do not divide into {heads} heads")
        return rows // heads

    def _tensor(self, name: str) -> TensorShape:
        tensor = self.tensors.get(name)
        if tensor is None:
            raise self._broken(f"the tensor “{name}” is missing")
        return tensor

    def _agreed(self, key: str, from_shape: int, layer: int = 0) -> int:
        """`from_shape`, with a warning where the metadata says otherwise."""
        stated = self.keys.per_layer(key, layer, self.blocks, default=from_shape)
        if stated != from_shape:
            self.warnings.append(f"The key {key} says {stated}, the tensors say {from_shape}; the tensors are right.")
        return from_shape

    def _refuse_experts_apart(self) -> None:
        for name in self.tensors:
            if _EXPERT_APART.fullmatch(name):
                raise UnsupportedError(
                    f"{self.gguf.path.name}: “{name}” keeps one expert in a tensor of its own, a layout of early 2024.",
                    remedy="Download a newer conversion of this model, in which the experts are stacked.",
                )

    def _refuse_unbuilt(self) -> None:
        """Keys that change the family's computation in a way that is not built: refused unless they are zero."""
        for key in self.family.unbuilt:
            full = f"{self.gguf.architecture}.{key}"
            value = self.gguf.metadata.get(full)
            if value is not None and np.any(np.asarray(value) != 0):
                shown = np.asarray(value).tolist()
                raise UnsupportedError(
                    f"{self.gguf.path.name}: {full} is {shown}, which our own engine does not compute.",
                    remedy="It may run on the compatibility engine.",
                )

    def _broken(self, problem: str) -> EngineError:
        return FormatError(f"{self.gguf.path.name}: {problem}.", remedy="Download the file again.")


def _layer_of(name: str) -> int:
    """Number of the layer that a tensor belongs to; -1 outside the layers."""
    match = _LAYER.match(name)
    return int(match[1]) if match else -1


def tensor_shapes(gguf: GGUFFile, ignored: tuple[str, ...] = ()) -> dict[str, TensorShape]:
    """Every tensor as [count, rows, cols], but for names that end in one of `ignored`."""
    shapes = {}
    for tensor in gguf.tensors.values():
        if not tensor.name.endswith(ignored):
            cols, rows, count, outer = (*tensor.ggml_shape, 1, 1, 1, 1)[:4]
            if tensor.name.endswith("_exps.bias"):  # one vector per expert
                rows, count = 1, rows
            shapes[tensor.name] = TensorShape(
                tensor.name, tensor.type_id, tensor.type_name, rows, cols, count * outer, tensor.n_bytes
            )
    return shapes
