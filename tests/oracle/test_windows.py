"""Past the window, with no more memory than the window's, the logits are still llama.cpp's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.runtime.placement import Placement
from tests.oracle.test_tiny_models import check
from tests.support.hybrid_model import HybridModel, items_of
from tests.support.llama_oracle import LlamaOracle
from tests.support.native_model import Logits, NativeModel
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]

TOKENS = np.random.default_rng(5).integers(0, 512, 1000).tolist()
GEMMA3 = TinyModel("gemma3", "F16", layers=3, overrides=(("gemma3.attention.sliding_window_pattern", 2),))


@pytest.fixture(scope="module")
def theirs(tiny_models: Write) -> Logits:
    with LlamaOracle(tiny_models(GEMMA3), context=1024) as oracle:
        return oracle.logits(TOKENS)


def test_a_long_text_and_what_follows_it(tiny_models: Write, theirs: Logits) -> None:
    """In parts, token by token, back by a few, and two sequences beside each other."""
    model = NativeModel(tiny_models(GEMMA3), context=2048)
    pool, state, other = model.model.pool, model.new_state(), model.new_state()
    assert pool.layer_bytes(0)[0] * 3 < pool.layer_bytes(1)[0]  # the first layer keeps its window alone
    rows = [model.extend(state, TOKENS[i : i + 300]) for i in range(0, 900, 300)]
    rows += [model.extend(state, [token]) for token in TOKENS[900:920]]
    model.extend(other, TOKENS[:70])
    state.truncate(900)
    parts = model.extend_together([(state, TOKENS[900:]), (other, TOKENS[70:90])])
    check(np.concatenate(rows[:3] + parts[:1]), theirs, GEMMA3)
    check(np.concatenate(rows[3:]), theirs[900:920], GEMMA3)
    check(parts[1], theirs[70:90], GEMMA3)
    pool.check_integrity([state.held_blocks, other.held_blocks])


def test_on_a_device(tiny_models: Write, theirs: Logits) -> None:
    """Caches move while the windows have passed; the device holds no more of them either."""
    model = HybridModel(tiny_models(GEMMA3), context=2048)
    state = model.new_state()
    rows = [model.extend(state, TOKENS[i : i + 300]) for i in (0, 300)]
    model.place(Placement(frozenset(items_of(model.graph)), {}))
    rows += [model.extend(state, TOKENS[600:800])]
    model.place(Placement(frozenset(), {}))
    rows += [model.extend(state, TOKENS[800:900]), *(model.extend(state, [token]) for token in TOKENS[900:])]
    check(np.concatenate(rows), theirs, GEMMA3)
    model.close()


def test_llama4_beyond_its_first_chunk(tiny_models: Write) -> None:
    """Chunks have 8192 positions; from there on the layers without positions scale their queries, too."""
    model = TinyModel("llama4", "F32", layers=4, embedding=64, heads=1, kv_heads=1, feed_forward=64, context=16384)
    tokens = np.random.default_rng(6).integers(0, 512, 8192 + 40).tolist()
    with LlamaOracle(tiny_models(model), context=8448) as oracle:
        expected = oracle.logits(tokens)[-80:]
    native = NativeModel(tiny_models(model), context=8448)
    check(native.logits(tokens, 512)[-80:], expected, model)
