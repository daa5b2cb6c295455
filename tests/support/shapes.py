"""Model shapes for placement tests: the published ones on file, and small ones made to order."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from engine.gguf import QuantType
from engine.placement.shape import ModelShape, TensorShape

SHAPES = Path(__file__).parents[1] / "bench" / "shapes"


@cache
def published_shape(stem: str) -> ModelShape:
    return ModelShape.from_shape_file(SHAPES / f"{stem}.json")


def tensor(name: str, shape: tuple[int, ...], type_name: str = "Q4_K") -> TensorShape:
    rows = 1
    for n in shape[1:]:
        rows *= n
    return TensorShape(name, type_name, shape, QuantType[type_name].row_bytes(shape[0]) * rows)


def header(layers: int = 4, architecture: str = "llama", **keys: Any) -> dict[str, Any]:
    """Metadata of a small model; keyword `head_count_kv` stands for `<architecture>.attention.head_count_kv`."""
    values: dict[str, Any] = {
        "block_count": layers,
        "context_length": 8192,
        "embedding_length": 1024,
        "attention.head_count": 8,
        "attention.head_count_kv": 2,
    }
    for key, value in keys.items():
        short = "attention." + key
        is_attention = key.startswith(("head_count", "key_", "value_", "sliding", "kv_lora"))
        values[short if is_attention else key.replace("__", ".")] = value
    named = {f"{architecture}.{key}": value for key, value in values.items() if value is not None}
    return {"general.architecture": architecture, "general.name": "test model", **named}


def dense_tensors(layers: int = 4, hidden: int = 1024, vocabulary: int = 32000) -> list[TensorShape]:
    """A dense model of 8 heads of 128, 2 of them for keys and values, and a feed-forward width of 3 × hidden."""
    tensors = [tensor("token_embd.weight", (hidden, vocabulary)), tensor("output.weight", (hidden, vocabulary))]
    tensors.append(tensor("output_norm.weight", (hidden,), "F32"))
    for i in range(layers):
        tensors += [
            tensor(f"blk.{i}.attn_norm.weight", (hidden,), "F32"),
            tensor(f"blk.{i}.attn_q.weight", (hidden, 1024)),
            tensor(f"blk.{i}.attn_k.weight", (hidden, 256)),
            tensor(f"blk.{i}.attn_v.weight", (hidden, 256)),
            tensor(f"blk.{i}.attn_output.weight", (1024, hidden)),
            tensor(f"blk.{i}.ffn_norm.weight", (hidden,), "F32"),
            tensor(f"blk.{i}.ffn_gate.weight", (hidden, 3 * hidden)),
            tensor(f"blk.{i}.ffn_up.weight", (hidden, 3 * hidden)),
            tensor(f"blk.{i}.ffn_down.weight", (3 * hidden, hidden)),
        ]
    return tensors


def moe_tensors(layers: int = 4, experts: int = 16, hidden: int = 1024) -> list[TensorShape]:
    """The same with `experts` experts of width 512 per layer instead of the feed-forward block."""
    tensors = [t for t in dense_tensors(layers, hidden) if "ffn_" not in t.name]
    for i in range(layers):
        tensors += [
            tensor(f"blk.{i}.ffn_norm.weight", (hidden,), "F32"),
            tensor(f"blk.{i}.ffn_gate_inp.weight", (hidden, experts), "F32"),
            tensor(f"blk.{i}.ffn_gate_exps.weight", (hidden, 512, experts)),
            tensor(f"blk.{i}.ffn_up_exps.weight", (hidden, 512, experts)),
            tensor(f"blk.{i}.ffn_down_exps.weight", (512, hidden, experts), "Q6_K"),
        ]
    return tensors


def dense_shape(layers: int = 4, **keys: Any) -> ModelShape:
    return ModelShape.from_header(header(layers, **keys), dense_tensors(layers), "dense.gguf")


def moe_shape(layers: int = 4, experts: int = 16, used: int = 4, **keys: Any) -> ModelShape:
    metadata = header(layers, "qwen3moe", expert_count=experts, expert_used_count=used, **keys)
    return ModelShape.from_header(metadata, moe_tensors(layers, experts), "moe.gguf")
