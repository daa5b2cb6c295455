"""GGUF files of a few kilobytes with the keys that listing a model reads."""

from __future__ import annotations

from typing import Any

from engine.gguf import QuantType
from tests.support.gguf_writer import GGUFBuilder

METADATA: dict[str, Any] = {
    "general.name": "Small Model",
    "general.file_type": 7,
    "llama.block_count": 2,
    "llama.context_length": 4096,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.chat_template": "{{ messages }}",
}


def small_gguf(tokens: int = 10, seed: int = 0, **changes: Any) -> GGUFBuilder:
    """A llama of two layers, Q8_0. `changes` by key with "__" for the dot; None leaves the key out."""
    builder = GGUFBuilder("llama")
    values = METADATA | {key.replace("__", "."): value for key, value in changes.items()}
    builder.add_all({key: value for key, value in values.items() if value is not None})
    builder.add("tokenizer.ggml.tokens", [f"token {index:08d}" for index in range(tokens)])
    for layer in range(2):
        data = bytes([seed % 256]) * (64 * 64 // 32 * 34)
        builder.tensor_raw(f"blk.{layer}.attn_q.weight", (64, 64), int(QuantType.Q8_0), data)
    return builder
