"""qwen3: dense Qwen 3. q and k are normalised per head; the head size is a key of its own."""

from engine.models.family import Family

QWEN3 = Family("qwen3", rope_mode="neox", qk_norm="head")
