"""The tiny models are what they should be: llama.cpp runs them, and they are the same every time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import llama_cpp
import numpy as np
import pytest

from engine.gguf import GGUFFile, QuantType
from tests.support.quantize import CODEBOOK_TYPES, TYPES
from tests.support.tiny_families import TRAITS
from tests.support.tiny_models import FAMILIES, MIXES, TinyModel, tiny_model_builder

Models = Callable[[TinyModel], Path]

VARIANTS = [
    *(
        TinyModel(family, mix, layers=TRAITS[family].least_layers, kv_heads=TRAITS[family].kv_heads)
        for family in FAMILIES
        for mix in ("F32", "all")
    ),
    *(TinyModel(mix=mix, layers=1) for mix in MIXES if mix not in ("F32", "all")),
    TinyModel("llama", tied=True),
    TinyModel("llama", rope_scaling="linear"),
    TinyModel("llama", rope_scaling="yarn"),
    TinyModel("llama", rope_scaling="llama3"),
    TinyModel("llama", biases=True, output_bias=True, kv_heads=4),
    TinyModel("llama", "Q8_0", embedding=576, heads=9, kv_heads=3, feed_forward=1536),
    TinyModel("llama", head_dim=128),
    TinyModel("qwen2", tied=True),
    TinyModel("qwen3", kv_heads=1, rope_scaling="yarn"),
    TinyModel("qwen3moe", experts=32, experts_used=4, head_dim=64, heads=8),
    TinyModel("llama", vocabulary=2048, add_bos=True),
]


@pytest.mark.parametrize("model", VARIANTS, ids=lambda model: model.slug)
def test_llama_cpp_runs_it(tiny_models: Models, model: TinyModel) -> None:
    llama = llama_cpp.Llama(str(tiny_models(model)), n_ctx=64, n_threads=1, verbose=False, logits_all=True)
    try:
        tokens = llama.tokenize(b"Random weights, and yet: 12 logits.", add_bos=model.add_bos)[:16]
        llama.eval(tokens)
        logits = np.array(llama.scores[: len(tokens)])
    finally:
        llama.close()
    assert np.isfinite(logits).all()
    assert 0.5 < logits.std() < 4  # spread enough to have a clear winner, not so wide that one token drowns all
    assert len(set(logits.argmax(axis=1))) > 3  # not the same answer everywhere


@pytest.mark.parametrize(("family", "mix"), [*((family, "all") for family in FAMILIES), ("llama", "codebooks")])
def test_the_mixes_of_all_types_hold_all_types(starter_model: Path, family: str, mix: str) -> None:
    builder = tiny_model_builder(TinyModel(family, mix, layers=4), starter_model)
    expected = {"F32", *CODEBOOK_TYPES} if mix == "codebooks" else set(TYPES) - set(CODEBOOK_TYPES)
    assert {QuantType(tensor.type_id).name for tensor in builder.tensors} == expected


def test_the_same_model_has_the_same_bytes(starter_model: Path) -> None:
    def build(model: TinyModel) -> bytes:
        return tiny_model_builder(model, starter_model).build()

    assert build(TinyModel("qwen2", "Q4_K_M")) == build(TinyModel("qwen2", "Q4_K_M"))
    assert build(TinyModel("qwen2", "Q4_K_M")) != build(TinyModel("qwen2", "Q4_K_M", seed=1))


def test_overrides_and_left_out_tensors(tiny_models: Models) -> None:
    model = TinyModel(
        overrides=(("llama.block_count", 3), ("tokenizer.chat_template", None)), without=("output.weight",)
    )
    with GGUFFile.open(tiny_models(model)) as file:
        assert file.metadata.u32("llama.block_count") == 3
        assert "tokenizer.chat_template" not in file.metadata
        assert "output.weight" not in file.tensors
