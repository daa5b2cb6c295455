"""Logits beside llama.cpp's, family by family: python -m tests.bench.parity [FAMILY …]

Mean KL divergence in nats, llama.cpp's distribution first, over 64 positions of random tokens and random weights: the
prompt at once, token by token, in one batch with another sequence, and split between CPU and the emulated device. The
bound is that of two engines which round activations apart (tests/support/logit_bounds.py). Where two experts are level
within that rounding, the engines may take different ones: a count in the last column says for how many tokens and
layers, and those positions differ by more.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np

from engine.hub.starter import ensure_starter_model
from tests.support.hybrid_model import HybridModel, random_placement
from tests.support.llama_oracle import LlamaOracle, kl_divergence
from tests.support.logit_bounds import bounds
from tests.support.native_model import Logits, NativeModel
from tests.support.tiny_deepseek2 import TinyDeepSeek2
from tests.support.tiny_models import FAMILIES, TinyModel, tiny_model_factory
from tests.support.tiny_qwen3next import TinyQwen3Next

MIXES = ("F32", "F16", "Q8_0", "Q4_K_M")
TOKENS = np.random.default_rng(11).integers(0, 512, 64).tolist()
PROMPT = 48


def models() -> Iterator[tuple[str, list[TinyModel]]]:
    for family in FAMILIES:
        yield family, [TinyModel(family, mix) for mix in MIXES]
    yield "deepseek2", [TinyDeepSeek2(mix=mix, groups=1) for mix in MIXES]
    yield "deepseek2, kv_b in one", [TinyDeepSeek2(mix=mix, groups=1, split=False) for mix in MIXES]
    for family in ("qwen3next", "qwen35", "qwen35moe"):
        yield family, [TinyQwen3Next(family, mix) for mix in MIXES]


def in_a_batch(model: NativeModel) -> Logits:
    state, other = model.new_state(), model.new_state()
    first, _ = model.extend_together([(state, TOKENS[:PROMPT]), (other, TOKENS[5:25])])
    second, _ = model.extend_together([(state, TOKENS[PROMPT:]), (other, TOKENS[:1])])
    return np.concatenate([first, second])


def split(path: Path) -> Logits:
    model = HybridModel(path)
    model.place(random_placement(model.graph, Random(5)))
    state = model.new_state()
    rows = [model.extend(state, TOKENS[:PROMPT]), *(model.extend(state, [token]) for token in TOKENS[PROMPT:])]
    model.close()
    return np.concatenate(rows)


def report(family: str, model: TinyModel, path: Path) -> None:
    with LlamaOracle(path, context=256, experts=model.experts if model.has_experts else 0) as oracle:
        theirs, ranked = oracle.logits_and_experts(TOKENS)
    native = NativeModel(path)
    ways = [native.logits(TOKENS), NativeModel(path).logits(TOKENS, 1), in_a_batch(native), split(path)]
    found = " ".join(f"{kl_divergence(theirs, ours).mean():10.1e}" for ours in ways)
    limit = bounds(theirs, model.mix, model.layers).mean_kl
    others = len(NativeModel(path).logits_with_experts(TOKENS, ranked)[1]) if ranked else 0
    print(f"{family:<24} {model.mix:<8} {found} {limit:10.1e} {others or '':>6}", flush=True)


def main() -> None:
    wanted = sys.argv[1:]
    print(f"{'':<24} {'':<8} {'prompt':>10} {'decode':>10} {'batch':>10} {'split':>10} {'bound':>10} {'other':>6}")
    with tempfile.TemporaryDirectory() as folder:
        write = tiny_model_factory(Path(folder), ensure_starter_model)
        for family, variants in models():
            for model in variants if not wanted or model_is_wanted(family, wanted) else ():
                report(family, model, write(model))


def model_is_wanted(family: str, wanted: list[str]) -> bool:
    return any(family.startswith(name) for name in wanted)


if __name__ == "__main__":
    main()
