"""GGUF metadata + tensor shapes → ModelSpec, for the transformers that a Family describes.

Read or refuse: a key is read with its type and a stated default, or it is required; an unknown value of an
enumerated key is refused by name. Where a size in the metadata disagrees with the tensors, the tensors win if they
agree with each other (a warning says so); otherwise the file is refused.
"""

from __future__ import annotations

import math
import re

import numpy as np

from engine.errors import UnsupportedError
from engine.models.rope_reader import RopeReader
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
)

_EXPERT_APART = re.compile(r"blk\.\d+\.ffn_(gate|up|down)\.\d+\.weight")
# Keys that change what a model computes in some family, and the values that leave it as it is. A family that reads such
# a key names it in `Family.read_keys`.
_NEUTRAL: dict[str, tuple[float, ...]] = {
    "attention.causal": (True,),
    "attention.clamp_kqv": (0,),
    "attention.max_alibi_bias": (0,),
    "attention.temperature_scale": (0,),
    "attn_logit_softcapping": (0,),
    "final_logit_softcapping": (0,),
    "router_logit_softcapping": (0,),
    "embedding_scale": (0, 1),
    "residual_scale": (0, 1),
    "logit_scale": (0, 1),
    "expert_weights_norm": (False, True),
    "moe_every_n_layers": (0, 1),
    "rope.scaling.alpha": (0, 1),
    "swiglu_clamp_exp": (0,),
    "swiglu_clamp_shexp": (0,),
    "use_parallel_residual": (False,),
}
_MOST_GROUPS = 32  # of experts, as the kernels count them
# llama.cpp's llama_expert_gating_func_type; the third is a softmax over the chosen experts only, which is what a
# softmax over all of them becomes when its weights are normalised.
_GATINGS: dict[int, Gating] = {1: "softmax", 2: "sigmoid", 3: "softmax"}
_SOFTMAX_OF_CHOSEN = 3


class SpecReader(RopeReader):
    """Reads the ModelSpec of a file. FormatError or UnsupportedError name the file and the key or tensor.

    A family whose layers attend in another way has a reader of its own, which overrides `_attention`.
    """

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
        rope = self._rope_of(index, window, key_dim, rope_factors)
        return AttentionSpec(
            heads=heads,
            kv_heads=kv_heads,
            key_dim=self._agreed("attention.key_length", key_dim),
            value_dim=self._agreed("attention.value_length", self._head_dim(f"{blk}.attn_v.weight", kv_heads)),
            scale=self.keys.number("attention.scale", 0.0) or 1.0 / math.sqrt(self._scaled_by(key_dim, heads)),
            rope=rope,
            temperature=self._temperature(rope, key_dim),
            qk_norm=self._qk_norm(index, rope),
            norm_after_rope=self.family.norm_after_rope,
            window=window,
            soft_cap=self._soft_cap("attn_logit_softcapping", self.family.soft_caps[0]),
            sinks=self.family.sinks,
            gated=self.family.gated_attention,
        )

    def _qk_norm(self, index: int, rope: RopeSpec | None) -> QKNorm:
        if self.family.qk_norm == "plain":
            has_none = rope is None or self.keys.integer("expert_count", 0) == self.family.unnormalised_experts
            return "none" if has_none else "plain"
        is_there = f"blk.{index}.attn_q_norm.weight" in self.tensors
        return self.family.qk_norm if is_there or not self.family.qk_norm_optional else "none"

    def _scaled_by(self, key_dim: int, heads: int) -> int:
        wide = self.blocks == self.family.wide_scale_layers
        return self._tensor("token_embd.weight").cols // heads if wide else key_dim

    def _experts(self, blk: str) -> ExpertsSpec:
        if (both := f"{blk}.ffn_gate_up_exps.weight") in self.tensors:
            raise UnsupportedError(
                f"{self.gguf.path.name}: “{both}” holds gate and up of the experts, which is not supported.",
                remedy="It may run on the compatibility engine.",
            )
        gate = self._tensor(f"{blk}.ffn_gate_exps.weight")
        used = self.keys.integer("expert_used_count", minimum=1)
        if used > 1 and self.family.weighs_input:
            raise self._unbuilt("expert_used_count", used)
        if used > gate.count:
            raise self._broken(f"{used} experts are used per token, but there are only {gate.count}")
        gating = self.keys.integer("expert_gating_func", 0)
        if gating and gating not in _GATINGS:
            raise self._unbuilt("expert_gating_func", gating)
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
            weighs_input=self.family.weighs_input,
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

    def _refuse_experts_apart(self) -> None:
        for name in self.tensors:
            if _EXPERT_APART.fullmatch(name):
                raise UnsupportedError(
                    f"{self.gguf.path.name}: “{name}” keeps one expert in a tensor of its own, a layout of early 2024.",
                    remedy="Download a newer conversion of this model, in which the experts are stacked.",
                )

    def _refuse_unbuilt(self) -> None:
        """Values that change the family's computation in a way that is not built."""
        for key, neutral in _NEUTRAL.items():
            value = np.asarray(self.gguf.metadata.get(f"{self.gguf.architecture}.{key}", neutral[0]))
            if key in self.family.unbuilt:
                neutral = neutral[:1]
            if key not in self.family.read_keys and not np.isin(value, neutral).all():
                raise self._unbuilt(key, value.tolist())
