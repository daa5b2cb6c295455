"""Layers that remember otherwise than by keys and values, beside llama.cpp: python -m tests.bench.memories

CPU time per token on one thread, of small models whose attention has the real models' sizes and whose other parts are
next to nothing: reading a prompt, and one token at that depth (the best of several, taken in turns). llama.cpp runs
with flash attention and without; the ratio is to the faster of the two, above 1 where we are faster.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from engine.hub.starter import ensure_starter_model
from tests.support.llama_oracle import LlamaOracle
from tests.support.native_model import NativeModel
from tests.support.tiny_deepseek2 import TinyDeepSeek2
from tests.support.tiny_models import TinyModel, tiny_model_factory
from tests.support.tiny_qwen3next import TinyQwen3Next

STEPS, PART = 12, 256
_LATENT = {"mix": "Q8_0", "dense_layers": 1, "experts": 2, "experts_used": 1, "groups": 1, "embedding": 512,
           "rank": 512, "query_rank": 512, "rotary": 64, "plain": 128, "value": 128, "context": 8192}  # fmt: skip
MODELS: dict[str, tuple[TinyModel, int]] = {  # and the depth
    "latent, 16 heads (V2-Lite)": (TinyDeepSeek2(**_LATENT, heads=16), 2048),  # type: ignore[arg-type]
    "latent, 64 heads (Kimi K2)": (TinyDeepSeek2(**_LATENT, heads=64), 1024),  # type: ignore[arg-type]
    "latent, 128 heads (V3)": (TinyDeepSeek2(**_LATENT, heads=128), 1024),  # type: ignore[arg-type]
    "delta net, 32 heads (Qwen3-Next)": (
        TinyQwen3Next(mix="Q8_0", layers=4, interval=4, experts=2, experts_used=1, embedding=512, head_dim=256,
                      rotary=64, key_heads=16, value_heads=32, state=128, context=8192),
        1024,
    ),
}  # fmt: skip


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def report(name: str, path: Path, depth: int) -> None:
    tokens = np.random.default_rng(0).integers(0, 512, depth + STEPS).tolist()
    oracles = [LlamaOracle(path, context=depth + 256, flash_attention=flash) for flash in (False, True)]
    native = NativeModel(path, context=depth + 256)
    state = native.new_state()

    def read() -> None:
        for begin in range(0, depth, PART):
            native.extend(state, tokens[begin : min(begin + PART, depth)])

    prompts = [seconds(read), *(seconds(lambda o=oracle: o.logits(tokens[:depth])) for oracle in oracles)]  # type: ignore[misc]
    steps = []
    for position in range(depth, depth + STEPS):
        token = tokens[position]
        ours = seconds(lambda: native.extend(state, [token]))  # noqa: B023 - called at once
        steps.append([ours, *(seconds(lambda o=o: o.extend(token, position)) for o in oracles)])  # type: ignore[misc] # noqa: B023
    best = np.min(steps, axis=0)
    for what, times, count in (("prompt", prompts, depth), ("decode", best, 1)):
        per_token = " ".join(f"{1000 * t / count:9.2f}" for t in times)
        print(f"{name:<34} {what} {per_token} {min(times[1:]) / times[0]:7.2f}", flush=True)
    for oracle in oracles:
        oracle.close()


def main() -> None:
    print(f"{'ms of CPU time per token':<41} {'ours':>9} {'llama.cpp':>9} {'flash':>9} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        write = tiny_model_factory(Path(folder), ensure_starter_model)
        for name, (model, depth) in MODELS.items():
            report(name, write(model), depth)


if __name__ == "__main__":
    main()
