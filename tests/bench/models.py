"""Models for speed benchmarks: real shapes with random weights, mixed as Q4_K_M files are. The text is nonsense.

    python -m tests.bench.models [FOLDER]        writes those of `SHAPES` that are not there yet

Each tensor is a random gather from a pool of truly quantised blocks, so that no two rows are alike; shapes are those of
Qwen3-0.6B, Qwen3-1.7B and eight layers of Qwen3-30B-A3B, from their published configurations.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.gguf import QuantType
from tests.support.gguf_writer import GGUFBuilder
from tests.support.quantize import quantize
from tests.support.tiny_deepseek2 import TinyDeepSeek2
from tests.support.tiny_models import TinyModel, Weight, cut_vocabulary, model_metadata, model_weights, weight_type

_QWEN3 = TinyModel("qwen3", "Q4_K_M", vocabulary=151936, context=32768, rope_base=1e6, epsilon=1e-6)
SHAPES = {
    "qwen3-0.6b": replace(_QWEN3, layers=28, embedding=1024, heads=16, kv_heads=8, feed_forward=3072, tied=True),
    "qwen3-1.7b": replace(_QWEN3, layers=28, embedding=2048, heads=16, kv_heads=8, feed_forward=6144, tied=True),
    "qwen3moe-8-layers": replace(
        _QWEN3, family="qwen3moe", layers=8, embedding=2048, heads=32, kv_heads=4, feed_forward=768, experts=128,
        experts_used=8,
    ),
}  # fmt: skip
# By name only (`tests.bench.speed --only`): the smallest in other types, and eight layers as DeepSeek-V2-Lite's, but
# for experts of 1536 values in place of 1408, which hold whole blocks.
OTHERS: dict[str, TinyModel] = {
    f"qwen3-0.6b-{mix.removesuffix('_M').lower()}": replace(SHAPES["qwen3-0.6b"], mix=mix)
    for mix in ("IQ4_XS_M", "MXFP4_M")
} | {
    "deepseek2-8-layers": TinyDeepSeek2(
        mix="Q4_K_M", vocabulary=102400, context=32768, layers=8, embedding=2048, heads=16, rank=512, query_rank=0,
        plain=128, rotary=64, value=128, sigmoid=False, groups=1, selection_bias=False, experts=64, experts_used=6,
        feed_forward=1536,
    )
}  # fmt: skip
_POOL_BLOCKS = 4096
_ALIGNMENT = 32


def write_all(folder: Path, tokenizer: Path) -> dict[str, Path]:
    """Paths of all models in `folder`; missing ones are written (some 5 GB in all)."""
    folder.mkdir(parents=True, exist_ok=True)
    return {name: write_model(folder / f"{name}.gguf", shape, tokenizer) for name, shape in SHAPES.items()}


def write_model(path: Path, model: TinyModel, tokenizer: Path) -> Path:
    """Streams the model to `path`, unless it is there. The vocabulary is the tokenizer's, padded with unused tokens."""
    if path.exists():
        return path
    builder = GGUFBuilder(None, alignment=_ALIGNMENT)
    builder.add_all({**model_metadata(model), **_padded_vocabulary(tokenizer, model.vocabulary)})
    weights = list(model_weights(model))
    for weight in weights:
        kind = _type(model, weight)
        rows = int(np.prod(weight.shape[:-1], dtype=np.int64)) if len(weight.shape) > 1 else 1
        size = QuantType[kind].row_bytes(weight.shape[-1]) * rows
        builder.tensor_raw(weight.name, tuple(reversed(weight.shape)), QuantType[kind], _Sized(size))
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.write(builder.header())
        for weight in weights:
            file.write(bytes(-file.tell() % _ALIGNMENT))
            for piece in _blocks(weight, _type(model, weight), model.seed):
                file.write(piece)
    return part.rename(path)


class _Sized(bytes):
    """Stands for tensor data of a length while the header is made; holds none."""

    length: int

    def __new__(cls, length: int) -> _Sized:
        self = super().__new__(cls)
        self.length = length
        return self

    def __len__(self) -> int:
        return self.length


def _type(model: TinyModel, weight: Weight) -> str:
    """As llama.cpp mixes: the better type for the output and for attn_v and ffn_down of about half of the layers; Q8_0
    where a type's blocks do not fit the row."""
    kind = weight_type(model.mix, weight.role, 0)
    if weight.role == "better" and weight.name.startswith("blk."):
        layer, n = int(weight.name.split(".")[1]), model.layers
        is_spared = layer < n // 8 or layer >= 7 * n // 8 or (layer - n // 8) % 3 == 2
        kind = weight_type(model.mix, "better" if is_spared else "matrix", 0)
    return kind if weight.shape[-1] % QuantType[kind].block_elements == 0 else "Q8_0"


def _blocks(weight: Weight, kind: str, seed: int) -> Iterator[bytes]:
    if kind == "F32":
        yield weight.values(seed).tobytes()
        return
    std = weight.std or weight.shape[-1] ** -0.5
    pool = _pool(kind, round(float(std), 9))
    rng = np.random.default_rng((seed, len(weight.name), int(np.prod(weight.shape, dtype=np.int64))))
    count = int(np.prod(weight.shape, dtype=np.int64)) // 256
    for begin in range(0, count, 1 << 18):
        chosen = rng.integers(0, len(pool), min(1 << 18, count - begin))
        yield pool[chosen].tobytes()


@functools.cache
def _pool(kind: str, std: float) -> NDArray[np.uint8]:
    values = np.random.default_rng(0).standard_normal((_POOL_BLOCKS, 256), np.float32) * np.float32(std)
    return quantize(values, kind)


def _padded_vocabulary(tokenizer: Path, size: int) -> dict[str, object]:
    pairs = dict(cut_vocabulary(tokenizer, size))
    tokens = list(pairs["tokenizer.ggml.tokens"])
    missing = size - len(tokens)
    pairs["tokenizer.ggml.tokens"] = tokens + [f"[PAD{i}]" for i in range(missing)]
    unused = np.full(missing, 5, np.int32)
    pairs["tokenizer.ggml.token_type"] = np.concatenate([pairs["tokenizer.ggml.token_type"], unused])
    return pairs


def main() -> None:
    from engine.hub.starter import ensure_starter_model

    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/bench-models")
    for path in write_all(folder, ensure_starter_model()).values():
        print(path)


if __name__ == "__main__":
    main()
