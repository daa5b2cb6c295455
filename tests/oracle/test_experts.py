"""Mixtures of experts against llama.cpp: where two experts are all but level, its choice is taken over, and counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kernels import _cpu
from tests.support.llama_oracle import LlamaOracle, kl_divergence
from tests.support.logit_bounds import bounds, rounding
from tests.support.native_model import NativeModel
from tests.support.tiny_families import TRAITS
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]

TOKENS = np.random.default_rng(9).integers(0, 512, 96).tolist()


def check(tiny_models: Write, model: TinyModel, tier: str = "auto") -> None:
    path = tiny_models(model)
    with LlamaOracle(path, context=256, experts=model.experts) as oracle:
        theirs, ranked = oracle.logits_and_experts(TOKENS)
    ours, leads = NativeModel(path, tier=tier).logits_with_experts(TOKENS, ranked)
    limit = bounds(theirs, model.mix, model.layers)
    difference, divergence = ours - theirs, kl_divergence(theirs, ours)
    assert limit.allow(difference)
    assert divergence.mean() <= limit.mean_kl
    assert divergence.max() <= limit.largest_kl
    # A router score is a product like any other, of values with a deviation of 1: two of them, five deviations.
    lead = 5 * rounding(model.mix) * math.sqrt(2 * 2 * (4 * model.layers + 1))
    assert all(found <= lead for found in leads), max(leads)
    assert len(leads) <= 0.05 * len(TOKENS) * model.layers, f"{len(leads)} choices differ"


FAMILIES = tuple(name for name, traits in TRAITS.items() if traits.experts)


@pytest.mark.parametrize("mix", ["F32", "F16", "Q8_0", "Q4_K_M", "Q4_1_M", "all"])
@pytest.mark.parametrize("family", FAMILIES)
def test_experts(tiny_models: Write, family: str, mix: str) -> None:
    traits = TRAITS[family]
    check(tiny_models, TinyModel(family, mix, layers=traits.least_layers, kv_heads=traits.kv_heads))


@pytest.mark.parametrize("mix", ["Q8_0", "MXFP4"])
def test_gpt_oss_with_yarn(tiny_models: Write, mix: str) -> None:
    check(tiny_models, TinyModel("gpt-oss", mix, layers=3, rope_scaling="yarn", rope_factor=32.0, rope_base=150000.0))


@pytest.mark.parametrize("tier", _cpu.tiers())
def test_experts_on_every_tier(tiny_models: Write, tier: str) -> None:
    check(tiny_models, TinyModel("qwen3moe", "Q4_K_M"), tier)


def test_many_experts(tiny_models: Write) -> None:
    check(tiny_models, TinyModel("qwen3moe", "Q8_0", experts=32, experts_used=4, feed_forward=256))
