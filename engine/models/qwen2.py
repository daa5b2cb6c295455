"""qwen2: Qwen 1.5, 2 and 2.5 without experts. llama's block with biases on q, k and v, which the file shows."""

from engine.models.family import Family

QWEN2 = Family("qwen2", rope_mode="neox")
