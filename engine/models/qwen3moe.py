"""qwen3moe: Qwen 3 with experts in every layer, their weights renormalised over the chosen."""

from engine.models.family import Family

QWEN3MOE = Family("qwen3moe", rope_mode="neox", qk_norm="head", experts=True)
