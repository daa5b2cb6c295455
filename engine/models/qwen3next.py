"""qwen3next, qwen35, qwen35moe: Qwen3-Next and Qwen 3.5. Three delta nets, then a layer that attends.

The feed-forward norm's tensor has attention's name; a gate opens the shared expert. Attention's heads rotate in part
and have a gate each, which lies behind the query in its matrix. Qwen 3.5 deals value heads out to key heads in turn.
"""

from dataclasses import replace

from engine.models.family import Family

QWEN3NEXT = Family(
    "qwen3next",
    rope_mode="neox",
    qk_norm="head",
    recurrent=True,
    gated_attention=True,
    ffn_norm="post_attention_norm",
    experts=True,
)
QWEN35 = Family(
    "qwen35",
    rope_mode="neox",
    qk_norm="head",
    recurrent=True,
    tiled_value_heads=True,
    gated_attention=True,
    ffn_norm="post_attention_norm",
)
QWEN35MOE = replace(QWEN35, architecture="qwen35moe", experts=True)
