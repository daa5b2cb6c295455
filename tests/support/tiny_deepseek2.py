"""Tiny models of the family deepseek2: latent attention, leading dense layers, shared experts, groups of experts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from tests.support.tiny_models import TinyModel, Weight


@dataclasses.dataclass(frozen=True)
class TinyDeepSeek2(TinyModel):
    """As V3 by default: compressed queries, split k_b and v_b, sigmoid gates with a selection bias, two groups."""

    family: str = "deepseek2"
    rank: int = 256
    query_rank: int = 256  # 0: queries are not compressed
    plain: int = 64
    rotary: int = 32
    value: int = 64
    split: bool = True  # k_b and v_b; else both in attn_kv_b, as in files of 2024
    dense_layers: int = 1
    sigmoid: bool = True
    groups: int = 2  # of which one is used
    selection_bias: bool = True
    feed_forward: int = 256
    yarn_multiplier: float = 0.1  # as converters write it: a tenth of the model's

    @property
    def has_experts(self) -> bool:
        return True

    def family_metadata(self) -> dict[str, Any]:
        head, row = self.plain + self.rotary, self.rank + self.rotary
        pairs: dict[str, Any] = {
            "leading_dense_block_count": self.dense_layers,
            "attention.q_lora_rank": self.query_rank,
            "attention.kv_lora_rank": self.rank,
            "attention.head_count_kv": 1 if self.split else self.heads,
            "attention.key_length": row if self.split else head,
            "attention.value_length": self.rank if self.split else self.value,
            "rope.dimension_count": self.rotary,
            "expert_count": self.experts,
            "expert_used_count": self.experts_used,
            "expert_shared_count": 1,
            "expert_feed_forward_length": self.feed_forward,
            "expert_weights_scale": 2.5,
            "expert_weights_norm": self.sigmoid,
            "expert_gating_func": 2 if self.sigmoid else 1,
        }
        if self.split:
            pairs |= {"attention.key_length_mla": head, "attention.value_length_mla": self.value}
        if self.groups > 1:
            pairs |= {"expert_group_count": self.groups, "expert_group_used_count": 1}
        if self.rope_scaling == "yarn" and self.yarn_multiplier:
            pairs["rope.scaling.yarn_log_multiplier"] = self.yarn_multiplier
        return {f"deepseek2.{key}": value for key, value in pairs.items()}

    def layer_weights(self, layer: int) -> Iterator[Weight]:
        yield from self._attention_weights()
        yield Weight("ffn_norm.weight", (self.embedding,), "float", std=0.1, mean=1.0)
        if layer < self.dense_layers:
            yield from self.dense_weights()
            return
        yield from self.expert_weights()
        yield from self.dense_weights("_shexp")
        if self.selection_bias:
            yield Weight("exp_probs_b.bias", (self.experts,), "float", std=0.2)

    def _attention_weights(self) -> Iterator[Weight]:
        width, heads, sharp = self.embedding, self.heads, 1.5
        yield Weight("attn_norm.weight", (width,), "float", std=0.1, mean=1.0)
        queries = heads * (self.plain + self.rotary)
        if self.query_rank:
            yield Weight("attn_q_a.weight", (self.query_rank, width))
            yield Weight("attn_q_a_norm.weight", (self.query_rank,), "float", std=0.1, mean=1.0)
            yield Weight("attn_q_b.weight", (queries, self.query_rank), std=sharp * self.query_rank**-0.5)
        else:
            yield Weight("attn_q.weight", (queries, width), std=sharp * width**-0.5)
        yield Weight("attn_kv_a_mqa.weight", (self.rank + self.rotary, width))
        yield Weight("attn_kv_a_norm.weight", (self.rank,), "float", std=0.1, mean=1.0)
        inner = self.rank**-0.5
        if self.split:
            yield Weight("attn_k_b.weight", (heads, self.rank, self.plain), std=sharp * inner)
            yield Weight("attn_v_b.weight", (heads, self.value, self.rank), std=inner)
        else:
            yield Weight("attn_kv_b.weight", (heads * (self.plain + self.value), self.rank), std=sharp * inner)
        mixed = heads * self.value
        yield Weight("attn_output.weight", (width, mixed), std=self.residual_std(mixed))
