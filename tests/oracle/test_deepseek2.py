"""deepseek2 against llama.cpp: both layouts of a file, both kinds of gates, YaRN, every path a token can take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernels import _cpu
from tests.oracle.test_experts import check
from tests.support.llama_oracle import LlamaOracle
from tests.support.logit_bounds import bounds
from tests.support.native_model import NativeModel
from tests.support.tiny_deepseek2 import TinyDeepSeek2
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]

V3 = TinyDeepSeek2()
V2 = TinyDeepSeek2(split=False, sigmoid=False, selection_bias=False)
LITE = replace(V2, query_rank=0, groups=1)
KIMI = TinyDeepSeek2(groups=1, experts=32, experts_used=4)
TOKENS = np.random.default_rng(9).integers(0, 512, 96).tolist()


@pytest.mark.parametrize(
    "model",
    [
        V3,
        V2,
        LITE,
        KIMI,
        replace(V3, rope_scaling="yarn", rope_base=1e6, context=4096),
        replace(V2, rope_scaling="yarn", yarn_multiplier=0.0707),
        replace(V3, rope_scaling="yarn", yarn_multiplier=0.0),
        replace(V3, heads=32, plain=32, value=32, rank=64),
        replace(V3, dense_layers=0, layers=1),
    ],
    ids=lambda model: model.slug,
)
def test_variants(tiny_models: Write, model: TinyDeepSeek2) -> None:
    check(tiny_models, model)


@pytest.mark.parametrize("mix", ["F16", "Q8_0", "Q4_K_M", "Q4_1_M", "all"])
@pytest.mark.parametrize("model", [KIMI, LITE], ids=["kimi", "lite"])
def test_weight_types(tiny_models: Write, model: TinyDeepSeek2, mix: str) -> None:
    check(tiny_models, replace(model, mix=mix))


@pytest.mark.parametrize("tier", _cpu.tiers())
def test_every_tier(tiny_models: Write, tier: str) -> None:
    check(tiny_models, replace(KIMI, mix="Q4_K_M"), tier)


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("model", [V3, V2], ids=["v3", "v2"])
def test_token_by_token_and_in_parts(tiny_models: Write, model: TinyDeepSeek2, batch: int) -> None:
    path = tiny_models(model)
    with LlamaOracle(path, context=256) as oracle:
        theirs = oracle.logits(TOKENS)
    difference = NativeModel(path, threads=2).logits(TOKENS, batch) - theirs
    assert bounds(theirs, model.mix, model.layers).allow(difference)


def test_several_sequences_in_one_step(tiny_models: Write) -> None:
    model = NativeModel(tiny_models(V3))
    alone = [model.logits(TOKENS[:40]), model.logits(TOKENS[40:47])]
    states = [model.new_state(), model.new_state()]
    together = model.extend_together([(states[0], TOKENS[:40]), (states[1], TOKENS[40:47])])
    for one, other in zip(alone, together, strict=True):
        assert np.abs(one - other).max() <= 1e-3 * one.std()


def test_the_cache_holds_one_row_per_position(tiny_models: Write) -> None:
    pool = NativeModel(tiny_models(V3)).model.pool
    assert pool.block_bytes[0] == V3.layers * pool.block_tokens * (V3.rank + V3.rotary) * 2
