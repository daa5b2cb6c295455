"""deepseek2's hyperparameters: read from keys and shapes, or refused by key and value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import EngineError, FormatError, UnsupportedError
from engine.gguf import GGUFFile
from engine.models import build_graph, load_spec
from engine.models.graph import KVLayer
from engine.models.spec import DenseSpec, ExpertsSpec, LatentSpec
from engine.placement.shape import ModelShape
from tests.support.tiny_deepseek2 import TinyDeepSeek2
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]


def test_a_model_as_v3(tiny_models: Write) -> None:
    with GGUFFile.open(tiny_models(TinyDeepSeek2())) as gguf:
        spec = load_spec(gguf)
    first, last = spec.layers
    assert isinstance(first.feed_forward, DenseSpec)
    experts = last.feed_forward
    assert isinstance(experts, ExpertsSpec)
    assert (experts.gating, experts.normalise, experts.weight_scale) == ("sigmoid", True, 2.5)
    assert (experts.groups, experts.groups_used, experts.shared) == (2, 1, DenseSpec(256))
    attention = first.attention
    assert isinstance(attention, LatentSpec)
    assert (attention.rank, attention.query_rank, attention.plain_dim, attention.value_dim) == (256, 256, 64, 64)
    assert attention.rope.dimensions == 32 and attention.scale == pytest.approx(96**-0.5)
    assert not spec.warnings


@pytest.mark.parametrize("split", [True, False])
def test_the_planner_counts_the_same_memory(tiny_models: Write, split: bool) -> None:
    with GGUFFile.open(tiny_models(TinyDeepSeek2(split=split))) as gguf:
        graph, shape = build_graph(load_spec(gguf)), ModelShape.from_gguf(gguf)
    assert graph.kv_layers == (KVLayer(1, 288, 256, latent=True),) * 2
    assert shape.state_bytes(1000) == sum(1000 * 2 * sum(layer.rows) for layer in graph.kv_layers)


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("attention.temperature_scale", 0.1, UnsupportedError),
        ("rope.scaling.type", "linear", UnsupportedError),
        ("expert_gating_func", 9, UnsupportedError),
        ("expert_group_count", 3, FormatError),
        ("expert_group_used_count", 3, FormatError),
        ("rope.dimension_count", 16, FormatError),
        ("attention.head_count", 5, FormatError),
    ],
)
def test_values_are_refused_by_name(tiny_models: Write, key: str, value: object, error: type[EngineError]) -> None:
    model = replace(TinyDeepSeek2(), overrides=((f"deepseek2.{key}", value),))
    with GGUFFile.open(tiny_models(model)) as gguf, pytest.raises(error) as caught:
        load_spec(gguf)
    if error is UnsupportedError:
        assert key in str(caught.value) and str(value) in str(caught.value)


@pytest.mark.parametrize("without", ["attn_kv_a_norm", "attn_v_b", "attn_q_b", "ffn_gate_shexp", "attn_kv_a_mqa"])
def test_a_missing_tensor_is_named(tiny_models: Write, without: str) -> None:
    name = f"blk.1.{without}.weight"
    with GGUFFile.open(tiny_models(replace(TinyDeepSeek2(), without=(name,)))) as gguf, pytest.raises(FormatError) as e:
        build_graph(load_spec(gguf))
    assert name in str(e.value)
