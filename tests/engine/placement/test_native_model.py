"""Placement's view of a file against the engine's own: names of items, bytes, cache, steps of the program."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from engine.gguf import GGUFFile
from engine.memory.kv_pool import KVPool
from engine.models import build_graph, load_spec
from engine.models.graph import Graph
from engine.placement.costs import Workload
from engine.placement.hardware.catalogue import machine
from engine.placement.items import ItemKind, model_items
from engine.placement.planner import Budget, plan
from engine.placement.predict import predict
from engine.placement.shape import ModelShape
from engine.runtime.lowering import capture


@pytest.fixture
def opened(starter_model: Path) -> tuple[ModelShape, Graph]:
    gguf = GGUFFile.open(starter_model)
    try:
        return ModelShape.from_gguf(gguf), build_graph(load_spec(gguf))
    finally:
        gguf.close()


def test_every_operation_has_an_item_and_every_item_operations(opened: tuple[ModelShape, Graph]) -> None:
    shape, graph = opened
    assert {op.item for op in graph.ops} == {item.key for item in model_items(shape).items}


def test_cache_bytes_are_those_of_the_pool(opened: tuple[ModelShape, Graph]) -> None:
    shape, graph = opened
    assert shape.state_bytes(100) == 100 * KVPool.bytes_per_token(graph.kv_layers)


def test_operations_are_counted_as_the_program_runs_them(opened: tuple[ModelShape, Graph]) -> None:
    shape, graph = opened
    steps = capture(graph, kv_type=1, block_tokens=32).program.step_count
    assert sum(item.ops for item in model_items(shape).items) == pytest.approx(steps, abs=2)


def test_products_read_each_matrix_once(opened: tuple[ModelShape, Graph]) -> None:
    shape, graph = opened
    expected = Counter(t.rows * t.cols for t in graph.weights.values() if t.rows > 1)
    found = Counter(m.macs for i in model_items(shape).items if i.kind is not ItemKind.EMBEDDING for m in i.matrices)
    assert found == expected  # the head's table is the embedding's


def test_prediction_without_a_gpu_is_the_plan_without_a_budget(opened: tuple[ModelShape, Graph]) -> None:
    shape, _ = opened
    hardware = machine("Ryzen 7 5800X")
    made = plan(shape, hardware, Budget(0), Workload(context=1025, prompt=512, depth=1024))
    guess = predict(shape, hardware, prompt=512, depth=1024)
    assert guess.decode == pytest.approx(made.predicted.decode)
    assert guess.prefill == pytest.approx(made.predicted.prefill)


def test_prediction_follows_the_bandwidth_just_probed(opened: tuple[ModelShape, Graph]) -> None:
    shape, _ = opened
    hardware = machine("Ryzen 7 5800X")
    slow, fast = (predict(shape, hardware, prompt=64, depth=64, bandwidth=rate).decode for rate in (10e9, 20e9))
    assert 1.6 < fast / slow < 2.0
