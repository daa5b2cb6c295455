"""Extreme values of every number in a sound model's metadata: the spec is read or refused, at little cost."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import EngineError, FormatError, UnsupportedError
from engine.gguf import GGUFFile
from engine.gguf.describe import describe_file
from engine.models import build_graph, load_spec
from tests.support.gguf_writer import GGUFBuilder
from tests.support.tiny_deepseek2 import TinyDeepSeek2
from tests.support.tiny_models import FAMILIES, TinyModel, tiny_model_builder
from tests.support.tiny_qwen3next import TinyQwen3Next

INTEGERS = (0, 1, 3, 2**20, 2**32 - 1, 2**64 - 1, -1)
FLOATS = (0.0, -1.0, 3e38, float("nan"))
OTHERS: tuple[Any, ...] = ("text", [1, 2], [], True)
EXTRA_KEYS = (
    "attention.key_length", "attention.value_length", "attention.sliding_window", "expert_feed_forward_length",
    "expert_gating_func", "expert_shared_count", "expert_weights_scale", "leading_dense_block_count",
    "nextn_predict_layers", "rope.dimension_count", "rope.scaling.factor", "rope.scaling.original_context_length",
    "rope.scaling.type",
)  # fmt: skip
PEAK_BYTES = 16 << 20


def replaced(builder: GGUFBuilder, key: str, value: Any) -> GGUFBuilder:
    changed = GGUFBuilder(None)
    changed.pairs = [pair for pair in builder.pairs if pair.key != key.encode()]
    changed.tensors = builder.tensors
    return changed.add(key, value)


def test_specs_are_read_or_refused(starter_model: Path, tmp_path: Path, soak: bool) -> None:
    for family in FAMILIES if soak else ("llama", "qwen3moe", "gemma2", "granitemoe"):  # with all keys of the others
        model = TinyModel(family, "Q2_K", layers=1, vocabulary=280, feed_forward=256, experts=1, experts_used=1,
                          rope_scaling="yarn")  # fmt: skip
        check_all_values(model, starter_model, tmp_path / "m.gguf")


@pytest.mark.parametrize(
    "model",
    [
        TinyDeepSeek2(mix="Q8_0", layers=1, vocabulary=280, experts=2, experts_used=1, dense_layers=0, groups=1),
        TinyQwen3Next("qwen35moe", "Q8_0", vocabulary=280, experts=1, experts_used=1),
    ],
    ids=lambda model: model.family,
)
def test_specs_of_other_memories_are_read_or_refused(starter_model: Path, tmp_path: Path, model: TinyModel) -> None:
    check_all_values(replace(model, rope_scaling="yarn"), starter_model, tmp_path / "m.gguf")


def check_all_values(model: TinyModel, tokenizer: Path, path: Path) -> None:
    builder = tiny_model_builder(model, tokenizer)
    own = [pair.key.decode() for pair in builder.pairs if pair.key.startswith(model.architecture.encode())]
    keys = sorted({*own, *(f"{model.architecture}.{key}" for key in EXTRA_KEYS)})
    accepted = refused = 0
    for key in keys:
        for value in (*INTEGERS, *FLOATS, *OTHERS):
            path.write_bytes(replaced(builder, key, value).build())
            tracemalloc.start()
            try:
                with GGUFFile.open(path) as file:
                    build_graph(load_spec(file))
                accepted += 1
            except (FormatError, UnsupportedError) as error:
                assert "m.gguf" in str(error), f"{key} = {value!r}: {error}"
                refused += 1
            except Exception as error:
                raise AssertionError(f"{key} = {value!r}: {type(error).__name__}: {error}") from error
            finally:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
            assert peak < PEAK_BYTES, f"{key} = {value!r} took {peak} bytes"
    assert accepted > len(keys) and refused > len(keys)


def test_descriptions_never_fail_on_values(starter_model: Path, tmp_path: Path) -> None:
    builder = tiny_model_builder(TinyModel(layers=1, vocabulary=280), starter_model)
    for pair in list(builder.pairs):
        for value in (2**64 - 1, float("nan"), ["a"]):
            path = replaced(builder, pair.key.decode(), value).write(tmp_path / "m.gguf")
            try:
                with GGUFFile.open(path) as file:
                    describe_file(file)
            except EngineError as error:
                raise AssertionError(f"{pair.key!r} = {value!r}: {error}") from error
