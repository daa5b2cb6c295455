"""Lowering: segments by device, and the capture of every family."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.gguf import GGUFFile
from engine.models import build_graph, load_spec
from engine.runtime.lowering import split_by_device
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]


def test_segments_cover_the_graph_in_order(tiny_models: Write) -> None:
    with GGUFFile.open(tiny_models(TinyModel("qwen3moe"))) as gguf:
        graph = build_graph(load_spec(gguf))
    assert [(s.device, s.begin, s.end) for s in split_by_device(graph, lambda item: "cpu")] == [
        ("cpu", 0, len(graph.ops))
    ]
    mixed = split_by_device(graph, lambda item: "cpu" if item.endswith("experts") else "cuda:0")
    assert [s.device for s in mixed] == ["cuda:0", "cpu", "cuda:0", "cpu", "cuda:0"]
    assert [s.begin for s in mixed[1:]] == [s.end for s in mixed[:-1]]
