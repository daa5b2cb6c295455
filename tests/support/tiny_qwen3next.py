"""Tiny models of the families qwen3next, qwen35 and qwen35moe: gated delta nets between layers that attend."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from tests.support.tiny_models import TinyModel, Weight


@dataclasses.dataclass(frozen=True)
class TinyQwen3Next(TinyModel):
    """Every `interval`-th layer attends; the others are delta nets."""

    family: str = "qwen3next"  # or "qwen35moe", or "qwen35", which has no experts
    interval: int = 2
    head_dim: int = 64
    rotary: int = 32  # of head_dim
    key_heads: int = 2
    value_heads: int = 4
    state: int = 64  # values of a head's key, and of its value
    taps: int = 4
    joint: bool = False  # qkv and z in one matrix, as in qwen3next's files of 2025
    feed_forward: int = 256

    @property
    def has_experts(self) -> bool:
        return self.family != "qwen35"

    @property
    def inner(self) -> int:
        return self.value_heads * self.state

    @property
    def channels(self) -> int:
        return 2 * self.key_heads * self.state + self.inner

    def family_metadata(self) -> dict[str, Any]:
        pairs: dict[str, Any] = {
            "full_attention_interval": self.interval,
            "attention.key_length": self.head_dim,
            "attention.value_length": self.head_dim,
            "rope.dimension_count": self.rotary,
            "ssm.conv_kernel": self.taps,
            "ssm.inner_size": self.inner,
            "ssm.state_size": self.state,
            "ssm.time_step_rank": self.value_heads,
            "ssm.group_count": self.key_heads,
        }
        if self.has_experts:
            pairs |= {
                "expert_count": self.experts,
                "expert_used_count": self.experts_used,
                "expert_feed_forward_length": self.feed_forward,
                "expert_shared_feed_forward_length": self.feed_forward,
            }
        if self.family != "qwen3next":
            pairs["rope.dimension_sections"] = [6, 5, 5, 0]
        return {f"{self.family}.{key}": value for key, value in pairs.items()}

    def layer_weights(self, layer: int) -> Iterator[Weight]:
        yield Weight("attn_norm.weight", (self.embedding,), "float", std=0.1, mean=1.0)
        yield from self._attention_weights() if (layer + 1) % self.interval == 0 else self._delta_net_weights()
        yield Weight("post_attention_norm.weight", (self.embedding,), "float", std=0.1, mean=1.0)
        if not self.has_experts:
            yield from self.dense_weights()
            return
        yield from self.expert_weights()
        yield from self.dense_weights("_shexp")
        yield Weight("ffn_gate_inp_shexp.weight", (self.embedding,), "float", std=2 / self.embedding**0.5)

    def _attention_weights(self) -> Iterator[Weight]:
        width, q, kv = self.embedding, self.heads * self.head_dim, self.kv_heads * self.head_dim
        sharp = 1.5 * width**-0.5
        yield Weight("attn_q.weight", (2 * q, width), std=sharp)
        yield Weight("attn_k.weight", (kv, width), std=sharp)
        yield Weight("attn_v.weight", (kv, width), "better")
        yield Weight("attn_q_norm.weight", (self.head_dim,), "float", std=0.2, mean=1.2)
        yield Weight("attn_k_norm.weight", (self.head_dim,), "float", std=0.2, mean=1.2)
        yield Weight("attn_output.weight", (width, q), std=self.residual_std(q))

    def _delta_net_weights(self) -> Iterator[Weight]:
        width, heads = self.embedding, self.value_heads
        if self.joint:
            yield Weight("ssm_in.weight", (self.channels + self.inner, width))
        else:
            yield Weight("attn_qkv.weight", (self.channels, width))
            yield Weight("attn_gate.weight", (self.inner, width))
        if self.family == "qwen3next":
            yield Weight("ssm_ba.weight", (2 * heads, width))
        else:
            yield Weight("ssm_beta.weight", (heads, width))
            yield Weight("ssm_alpha.weight", (heads, width))
        yield Weight("ssm_conv1d.weight", (self.channels, self.taps), "float", std=0.6)
        yield Weight("ssm_a", (heads,), "float", std=0.2, mean=-1.0)
        yield Weight("ssm_dt.bias", (heads,), "float", std=0.5, mean=-2.0)
        yield Weight("ssm_norm.weight", (self.state,), "float", std=0.1, mean=1.0)
        yield Weight("ssm_out.weight", (width, self.inner), std=self.residual_std(self.inner))
