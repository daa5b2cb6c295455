"""Logits of tiny random models against llama.cpp's: every family, weight type, tier, batch size and thread count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from kernels import _cpu
from tests.support.llama_oracle import LlamaOracle, kl_divergence
from tests.support.logit_bounds import bounds
from tests.support.native_model import Logits, NativeModel
from tests.support.tiny_families import TRAITS
from tests.support.tiny_models import MIXES, TYPES, TinyModel

Write = Callable[[TinyModel], Path]
Reference = Callable[[TinyModel], Logits]

TOKENS = np.random.default_rng(7).integers(0, 512, 96).tolist()
TIERS = _cpu.tiers()


@pytest.fixture(scope="module")
def reference(tiny_models: Write) -> Iterator[Reference]:
    """llama.cpp's logits after each of TOKENS, computed once per model."""
    known: dict[TinyModel, Logits] = {}

    def logits(model: TinyModel) -> Logits:
        if model not in known:
            with LlamaOracle(tiny_models(model), context=256) as oracle:
                known[model] = oracle.logits(TOKENS)
        return known[model]

    yield logits


def check(ours: Logits, theirs: Logits, model: TinyModel) -> None:
    limit = bounds(theirs, model.mix, model.layers)
    difference, divergence = ours - theirs, kl_divergence(theirs, ours)
    assert limit.allow(difference)
    assert divergence.mean() <= limit.mean_kl
    assert divergence.max() <= limit.largest_kl


@pytest.mark.parametrize("mix", MIXES)
def test_weight_types(tiny_models: Write, reference: Reference, mix: str) -> None:
    model = TinyModel("llama", mix)
    check(NativeModel(tiny_models(model)).logits(TOKENS), reference(model), model)


DENSE = tuple(name for name, traits in TRAITS.items() if not traits.experts and name != "llama")


@pytest.mark.parametrize("mix", ["F32", "Q4_K_M", "Q8_0", "Q4_1_M"])
@pytest.mark.parametrize("family", DENSE)
def test_families(tiny_models: Write, reference: Reference, family: str, mix: str) -> None:
    model = TinyModel(family, mix, layers=TRAITS[family].least_layers)
    check(NativeModel(tiny_models(model)).logits(TOKENS), reference(model), model)


@pytest.mark.parametrize("batch", [1, 7, 32])
@pytest.mark.parametrize("family", ["gemma2", "gemma3", "phi3", "olmo2"])
def test_families_in_parts(tiny_models: Write, reference: Reference, family: str, batch: int) -> None:
    """Windows, caps, split tensors and norms behind blocks, token by token and in batches."""
    model = TinyModel(family, "Q8_0", layers=TRAITS[family].least_layers)
    check(NativeModel(tiny_models(model)).logits(TOKENS, batch), reference(model), model)


@pytest.mark.parametrize(
    "model",
    [
        TinyModel("llama", tied=True),
        TinyModel("llama", biases=True, output_bias=True),
        TinyModel("llama", heads=8, kv_heads=1),
        TinyModel("llama", heads=4, kv_heads=4),
        TinyModel("llama", embedding=512, heads=4, feed_forward=768),
        TinyModel("llama", rope_scaling="linear"),
        TinyModel("llama", rope_scaling="llama3", rope_base=500000.0),
        TinyModel("llama", rope_scaling="yarn", rope_base=1e6),
        TinyModel("qwen3", rope_scaling="yarn", rope_base=1e6, context=4096),
        TinyModel("qwen2", rope_scaling="yarn", overrides=(("qwen2.rope.scaling.attn_factor", 1.25),)),
        TinyModel("qwen3", head_dim=64),
        TinyModel("qwen3", "Q4_K_M", layers=6),
        TinyModel("gemma2", layers=3, overrides=(("gemma2.attention.sliding_window_pattern", 3),)),
        TinyModel("gemma3", layers=2, tied=True, overrides=(("gemma3.attention.sliding_window_pattern", 2),)),
        TinyModel("gemma3", layers=7, rope_scaling="linear", rope_base=1e6),
        TinyModel("olmo2", layers=4, overrides=(("olmo2.attention.sliding_window", 24),), rope_scaling="yarn"),
        TinyModel("granite", overrides=(("granite.embedding_scale", None), ("granite.residual_scale", None))),
        TinyModel("glm4", heads=4, kv_heads=1, biases=True),
        TinyModel("phi3", heads=8, kv_heads=2, tied=True),
        TinyModel("phi3", rope_scaling="longrope", overrides=(("phi3.rope.scaling.attn_factor", 1.2),)),
        TinyModel("mistral3", tied=True),
        TinyModel(
            "mistral3",
            overrides=(
                ("mistral3.attention.temperature_scale", 0.5),
                ("mistral3.rope.scaling.original_context_length", 20),
            ),
        ),
        TinyModel("glm4", overrides=(("glm4.rope.dimension_sections", (8, 4, 4, 0)),)),
    ],
    ids=lambda model: model.slug,
)
def test_variants(tiny_models: Write, reference: Reference, model: TinyModel) -> None:
    check(NativeModel(tiny_models(model)).logits(TOKENS), reference(model), model)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("mix", TYPES)
def test_every_tier_and_type(tiny_models: Write, reference: Reference, mix: str, tier: str) -> None:
    model = TinyModel("llama", mix)
    check(NativeModel(tiny_models(model), tier=tier).logits(TOKENS), reference(model), model)


@pytest.mark.parametrize("batch", [1, 3, 32, 96])
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_batch_sizes(tiny_models: Write, reference: Reference, family: str, batch: int) -> None:
    model = TinyModel(family, "Q4_K_M")
    check(NativeModel(tiny_models(model)).logits(TOKENS, batch), reference(model), model)


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("family", ["llama", "qwen3moe"])
def test_thread_count_does_not_matter(tiny_models: Write, family: str, threads: int) -> None:
    """The same sums in the same order, whoever computes them; only attention may be cut differently."""
    path = tiny_models(TinyModel(family, "Q4_K_M"))
    alone, together = NativeModel(path).logits(TOKENS), NativeModel(path, threads=threads).logits(TOKENS)
    assert np.abs(alone - together).max() <= 1e-3 * alone.std()


def test_positions_beyond_one_block_and_one_batch(tiny_models: Write) -> None:
    model, tokens = TinyModel("llama", "Q8_0"), np.random.default_rng(8).integers(0, 512, 700).tolist()
    with LlamaOracle(tiny_models(model), context=1024) as oracle:
        theirs = oracle.logits(tokens)
    check(NativeModel(tiny_models(model), context=1024).logits(tokens, 256), theirs, model)


def test_longrope_beyond_the_original_context(tiny_models: Write) -> None:
    """llama.cpp takes the second set of factors for a context that is longer, and so do we where one is wanted."""
    model = TinyModel("phi3", rope_scaling="longrope", context=512)  # the original one: 64
    with LlamaOracle(tiny_models(model), context=256) as oracle:
        theirs = oracle.logits(TOKENS)
    check(NativeModel(tiny_models(model), wanted=256).logits(TOKENS), theirs, model)
