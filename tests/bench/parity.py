"""Logits beside llama.cpp's, family by family: python -m tests.bench.parity [FAMILY …] > tests/bench/parity.md

Mean KL divergence in nats, llama.cpp's distribution first, over 64 positions of random tokens and random weights: the
prompt at once, token by token, in one batch with another sequence, and split between CPU and the emulated device. The
bound is that of two engines which round activations apart (tests/support/logit_bounds.py). Where two experts are level
within that rounding, the engines may take different ones, and those positions differ by more: the last columns have the
number of such choices, among tokens and layers of the prompt and of decoding, and the larger divergence of the two once
llama.cpp's choice is taken over.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from random import Random

import llama_cpp
import numpy as np

from engine.hub.starter import ensure_starter_model
from tests.support.hybrid_model import HybridModel, random_placement
from tests.support.llama_oracle import LlamaOracle, kl_divergence
from tests.support.logit_bounds import bounds
from tests.support.native_model import Logits, NativeModel
from tests.support.tiny_deepseek2 import TinyDeepSeek2
from tests.support.tiny_families import TRAITS
from tests.support.tiny_models import FAMILIES, TinyModel, tiny_model_factory
from tests.support.tiny_qwen3next import TinyQwen3Next

MIXES = ("F16", "Q8_0", "Q4_K_M", "IQ4_XS_M", "MXFP4_M", "all", "codebooks")
CODEBOOK_FAMILIES = ("llama", "qwen3moe")  # the search for codes takes a minute per mixture of experts
TOKENS = np.random.default_rng(11).integers(0, 512, 64).tolist()
PROMPT = 48


@dataclass(frozen=True)
class Divergences:
    """Mean KL per way of reading; with experts also where llama.cpp's choice is taken over, and how many differed."""

    prompt: float
    decode: float
    batch: float
    split: float
    bound: float
    forced: float | None
    other_choices: int

    @property
    def is_level(self) -> bool:
        """Within the bound, or beyond it only where another expert was as good."""
        ways = self.prompt, self.decode, self.batch, self.split
        if max(ways) <= self.bound:
            return True
        return self.forced is not None and self.forced <= self.bound and self.other_choices > 0


def variants(mixes: tuple[str, ...] = MIXES) -> Iterator[tuple[str, TinyModel]]:
    """All families, in all mixes."""
    for mix in mixes:
        for family in FAMILIES if mix != "codebooks" else CODEBOOK_FAMILIES:
            traits = TRAITS[family]
            yield family, TinyModel(family, mix, layers=traits.least_layers, kv_heads=traits.kv_heads)
        if mix == "codebooks":
            continue
        yield "deepseek2", TinyDeepSeek2(mix=mix, groups=1)
        yield "deepseek2, kv_b in one", TinyDeepSeek2(mix=mix, groups=1, split=False)
        for family in ("qwen3next", "qwen35", "qwen35moe"):
            yield family, TinyQwen3Next(family, mix)


def divergences(model: TinyModel, path: Path, seed: int = 5) -> Divergences:
    with LlamaOracle(path, context=256, experts=model.experts if model.has_experts else 0) as oracle:
        theirs, ranked = oracle.logits_and_experts(TOKENS)
    native = NativeModel(path)
    ways = native.logits(TOKENS), native.logits(TOKENS, 1), _in_a_batch(native), _split(path, seed)
    found = [float(kl_divergence(theirs, ours).mean()) for ours in ways]
    forced, others = None, 0
    if ranked:
        together = [native.logits_with_experts(TOKENS, ranked, batch) for batch in (len(TOKENS), 1)]
        forced = max(float(kl_divergence(theirs, ours).mean()) for ours, _ in together)
        others = sum(len(leads) for _, leads in together)
    return Divergences(*found, bounds(theirs, model.mix, model.layers).mean_kl, forced, others)


def _in_a_batch(model: NativeModel) -> Logits:
    state, other = model.new_state(), model.new_state()
    first, _ = model.extend_together([(state, TOKENS[:PROMPT]), (other, TOKENS[5:25])])
    second, _ = model.extend_together([(state, TOKENS[PROMPT:]), (other, TOKENS[:1])])
    state.release()
    other.release()
    return np.concatenate([first, second])


def _split(path: Path, seed: int) -> Logits:
    model = HybridModel(path)
    model.place(random_placement(model.graph, Random(seed)))
    state = model.new_state()
    rows = [model.extend(state, TOKENS[:PROMPT]), *(model.extend(state, [token]) for token in TOKENS[PROMPT:])]
    model.close()
    return np.concatenate(rows)


INTRODUCTION = """# Parity with llama.cpp

Written by `python -m tests.bench.parity` on {day}, commit {commit}, beside llama-cpp-python {version}: mean KL
divergence in nats over {positions} positions. All families were checked on random weights only. “other” counts choices
of experts that were level within rounding, in the prompt and in decoding; “forced” is the larger divergence of the two
with llama.cpp's choice taken over.
"""


def main() -> None:
    wanted = sys.argv[1:]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    facts = {"day": date.today(), "commit": commit.strip(), "version": llama_cpp.__version__, "positions": len(TOKENS)}
    print(INTRODUCTION.format(**facts))
    print("| family | mix | prompt | decode | batch | split | bound | forced | other |\n|" + "---|" * 9)
    with tempfile.TemporaryDirectory() as folder:
        write = tiny_model_factory(Path(folder), ensure_starter_model)
        for family, model in sorted(variants(), key=lambda variant: variant[0]):
            if not wanted or any(family.startswith(name) for name in wanted):
                print(_row(family, model, divergences(model, write(model))), flush=True)


def _row(family: str, model: TinyModel, d: Divergences) -> str:
    numbers = " | ".join(f"{value:.1e}" for value in (d.prompt, d.decode, d.batch, d.split, d.bound))
    forced = "" if d.forced is None else f"{d.forced:.1e}"
    mark = "" if d.is_level else " **beyond the bound**"
    return f"| {family} | {model.mix} | {numbers} | {forced} | {d.other_choices or ''}{mark} |"


if __name__ == "__main__":
    main()
