"""What sets the tiny models' families apart: which tensors their layers have, and which metadata."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from tests.support.tiny_models import TinyModel


@dataclasses.dataclass(frozen=True)
class Traits:
    """One family's tensors and keys; the defaults are llama's."""

    architecture: str = ""  # "": the family's name
    kv_heads: int = 2  # that llama.cpp takes with four heads
    head_width: int = 0  # 0: embedding / heads
    biases: bool = False  # of q, k and v
    output_bias: bool = False  # of attn_output
    qk_norm: Literal["none", "head", "row"] = "none"
    sinks: bool = False
    norms: Literal["before", "both", "after"] = "before"
    ffn_norm: str = "ffn_norm"
    fused: bool = False  # q, k and v in one tensor
    fused_gate_up: bool = False
    experts: bool = False
    expert_biases: bool = False
    selection_bias: bool = False
    shared: Literal["none", "plain", "gated"] = "none"
    dense_layers: int = 0  # of the first ones
    rotated: float = 1.0  # share of each head
    least_layers: int = 2  # until every kind of layer has come
    experts_used: int = 0  # 0: as the model says
    tied: bool = False  # never an output matrix
    tokens: tuple[str, ...] = ()  # that llama.cpp expects of the family's vocabulary
    keys: tuple[tuple[str, Any], ...] = ()  # without the architecture's name


_WINDOW = 24  # shorter than the tests' prompts

TRAITS: dict[str, Traits] = {
    "llama": Traits(),
    "mixtral": Traits("llama", experts=True),
    "qwen2": Traits(biases=True),
    "qwen3": Traits(head_width=128, qk_norm="head"),
    "qwen3moe": Traits(head_width=128, qk_norm="head", experts=True),
    "gpt-oss": Traits(
        head_width=64,
        biases=True,
        output_bias=True,
        sinks=True,
        ffn_norm="post_attention_norm",
        experts=True,
        expert_biases=True,
        keys=(("attention.sliding_window", _WINDOW),),
    ),
    "gemma2": Traits(
        head_width=128,
        norms="both",
        tied=True,
        keys=(
            ("attention.sliding_window", _WINDOW),
            ("attn_logit_softcapping", 2.0),
            ("final_logit_softcapping", 3.0),
        ),
    ),
    "gemma3": Traits(
        least_layers=7, head_width=128, qk_norm="head", norms="both", keys=(("attention.sliding_window", _WINDOW),)
    ),
    "glm4": Traits(norms="both", fused_gate_up=True, rotated=0.5),
    "glm4moe": Traits(
        head_width=128,
        biases=True,
        qk_norm="head",
        ffn_norm="post_attention_norm",
        experts=True,
        selection_bias=True,
        shared="plain",
        dense_layers=1,
        rotated=0.5,
        keys=(
            ("expert_shared_count", 1),
            ("leading_dense_block_count", 1),
            ("expert_weights_scale", 2.5),
            ("expert_weights_norm", True),
            ("expert_gating_func", 2),
        ),
    ),
    "qwen2moe": Traits(biases=True, experts=True, shared="gated"),
    "phi3": Traits(fused=True, fused_gate_up=True, tokens=("<unk>", "<s>", "</s>")),
    "granite": Traits(
        keys=(
            ("embedding_scale", 3.0),
            ("residual_scale", 0.75),
            ("logit_scale", 1.5),
            ("attention.scale", 0.1),
        ),
    ),
    "granitemoe": Traits(
        experts=True,
        shared="plain",
        keys=(
            ("embedding_scale", 3.0),
            ("residual_scale", 0.75),
            ("logit_scale", 1.5),
            ("attention.scale", 0.1),
        ),
    ),
    "olmo2": Traits(qk_norm="row", norms="after"),
    "olmoe": Traits(kv_heads=4, qk_norm="row", experts=True),
    "smollm3": Traits(least_layers=5),
    "ernie4_5-moe": Traits(
        experts=True,
        selection_bias=True,
        shared="plain",
        dense_layers=1,
        keys=(("leading_dense_block_count", 1), ("interleave_moe_layer_step", 1), ("expert_shared_count", 1)),
    ),
    "hunyuan-moe": Traits(head_width=128, qk_norm="head", experts=True, shared="plain"),
    "minimax-m2": Traits(
        head_width=128,
        qk_norm="row",
        experts=True,
        selection_bias=True,
        rotated=0.5,
        keys=(("expert_gating_func", 2),),
    ),
    "mistral3": Traits(),
    "llama4": Traits(
        least_layers=4, experts=True, experts_used=1, shared="plain", keys=(("interleave_moe_layer_step", 1),)
    ),
}


def trait_metadata(m: TinyModel) -> Iterator[tuple[str, Any]]:
    """Keys that only this family has, without the architecture's name."""
    traits = TRAITS[m.family]
    yield from traits.keys
    if m.architecture == "llama" or traits.rotated < 1:
        yield "rope.dimension_count", int(m.head_width * traits.rotated)
    if traits.experts:
        yield "expert_count", m.experts
        yield "expert_used_count", traits.experts_used or m.experts_used
        if m.family not in ("mixtral", "olmoe", "granitemoe"):  # theirs is feed_forward_length
            yield "expert_feed_forward_length", m.feed_forward
        if traits.shared != "none":
            yield "expert_shared_feed_forward_length", m.feed_forward
