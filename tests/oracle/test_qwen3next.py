"""qwen3next, qwen35 and qwen35moe against llama.cpp: both layouts of a file, every path a token can take."""

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
from tests.support.tiny_models import TinyModel
from tests.support.tiny_qwen3next import TinyQwen3Next

Write = Callable[[TinyModel], Path]

NEXT = TinyQwen3Next()
QWEN35 = TinyQwen3Next("qwen35moe")
DENSE = TinyQwen3Next("qwen35", "Q4_K_M", layers=3)
TOKENS = np.random.default_rng(9).integers(0, 512, 96).tolist()


@pytest.mark.parametrize(
    "model",
    [
        NEXT,
        QWEN35,
        replace(NEXT, joint=True),
        replace(NEXT, layers=3, key_heads=1),
        replace(QWEN35, layers=5, interval=4, value_heads=6),
        replace(NEXT, key_heads=4, state=32),
        replace(NEXT, tied=True, rope_base=1e7),
    ],
    ids=lambda model: model.slug,
)
def test_variants(tiny_models: Write, model: TinyQwen3Next) -> None:
    check(tiny_models, model)


@pytest.mark.parametrize("mix", ["F16", "Q8_0", "Q4_K_M", "Q4_1_M", "all"])
@pytest.mark.parametrize("model", [NEXT, QWEN35], ids=lambda model: model.family)
def test_weight_types(tiny_models: Write, model: TinyQwen3Next, mix: str) -> None:
    check(tiny_models, replace(model, mix=mix))


@pytest.mark.parametrize("tier", _cpu.tiers())
def test_every_tier(tiny_models: Write, tier: str) -> None:
    check(tiny_models, replace(NEXT, mix="Q4_K_M"), tier)


@pytest.mark.parametrize(("model", "batch"), [(NEXT, 1), (NEXT, 5), (NEXT, 33), (DENSE, 7), (DENSE, 96)])
def test_token_by_token_and_in_parts(tiny_models: Write, model: TinyQwen3Next, batch: int) -> None:
    path = tiny_models(model)
    with LlamaOracle(path, context=256) as oracle:
        theirs = oracle.logits(TOKENS)
    difference = NativeModel(path, threads=2).logits(TOKENS, batch) - theirs
    assert bounds(theirs, model.mix, model.layers).allow(difference)


def test_several_sequences_in_one_step(tiny_models: Write) -> None:
    """Each sequence's state is its own, whichever of them began earlier."""
    model = NativeModel(tiny_models(NEXT))
    alone = model.logits(TOKENS[:40])
    states = [model.new_state(), model.new_state()]
    first = model.extend(states[0], TOKENS[:30])
    begun, _ = model.extend_together([(states[0], TOKENS[30:37]), (states[1], TOKENS[:20])])
    rest, second = model.extend_together([(states[0], TOKENS[37:40]), (states[1], TOKENS[20:40])])
    ours = np.concatenate([first, begun, rest])
    assert np.abs(ours - alone).max() <= 1e-3 * alone.std()
    assert np.abs(second - alone[20:]).max() <= 1e-3 * alone.std()
