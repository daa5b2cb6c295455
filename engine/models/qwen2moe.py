"""qwen2moe: Qwen 1.5 and 2 with experts. A shared expert has a gate of its own; the others' weights
are not normalised."""

from engine.models.family import Family

QWEN2MOE = Family("qwen2moe", rope_mode="neox", experts=True, normalise_experts=False)
