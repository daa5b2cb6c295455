"""Bytes over the link, counted by the executor: everything that is copied, and nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.runtime.placement import Placement
from tests.support.hybrid_model import HybridModel, banks_of, items_of
from tests.support.tiny_models import TinyModel

TOKENS = list(range(40))


@pytest.fixture
def model(tiny_models: Callable[[TinyModel], Path]) -> Iterator[HybridModel]:
    model = HybridModel(tiny_models(TinyModel("qwen3moe", layers=3)))
    model.executor.promoter.is_enabled = False
    yield model
    model.close()


def counted(model: HybridModel) -> tuple[int, int]:
    traffic = model.executor.residency.traffic
    return traffic.to_device, traffic.to_host


def test_weights_and_caches_go_over_the_link_once(model: HybridModel) -> None:
    state, residency = model.new_state(), model.executor.residency
    model.extend(state, TOKENS)  # two blocks of cache
    assert counted(model) == (0, 0)
    items = items_of(model.graph)
    model.place(Placement(frozenset(items), banks_of(model.graph)))
    weights = sum(residency.item_bytes(item) for item in items)
    experts = sum(count * residency.expert_bytes(bank) for bank, count in banks_of(model.graph).items())
    cache = 2 * sum(sum(model.pool.layer_bytes(layer)) for layer in range(3)) // model.pool.blocks
    assert counted(model) == (weights + experts + cache, 0)
    model.place(Placement())
    assert counted(model) == (weights + experts + cache, cache)


def test_activations_are_counted_both_ways_in_every_step(model: HybridModel) -> None:
    attention = next(item for item in items_of(model.graph) if "attn" in item)
    model.place(Placement(frozenset({attention})))
    state = model.new_state()
    before = counted(model)
    model.extend(state, TOKENS[:1])
    one = counted(model)
    model.extend(state, TOKENS[1:2])
    two = counted(model)
    sizes = [one[way] - before[way] for way in range(2)]
    assert min(sizes) > 0
    assert [two[way] - one[way] for way in range(2)] == sizes
    model.extend(state, TOKENS[2:10])  # eight rows at once
    assert [counted(model)[way] - two[way] for way in range(2)] == [8 * size for size in sizes]
