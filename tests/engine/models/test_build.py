"""The graph: every tensor used once, values written before they are read, rows selected before the last block."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.gguf import GGUFFile
from engine.models import build_graph, load_spec
from engine.models.graph import Experts, Graph, Linear, RMSNorm, Router, SelectRows
from tests.support.tiny_models import FAMILIES, TinyModel

Write = Callable[[TinyModel], Path]


def graph_of(path: Path) -> Graph:
    with GGUFFile.open(path) as gguf:
        return build_graph(load_spec(gguf))


@pytest.mark.parametrize("family", FAMILIES)
def test_values_are_written_before_they_are_read(tiny_models: Write, family: str) -> None:
    graph = graph_of(tiny_models(TinyModel(family)))
    written: set[str] = set()
    for op in graph.ops:
        assert set(op.reads) <= written, op
        written |= set(op.writes)
    assert written == set(graph.values)
    assert graph.logits in written


@pytest.mark.parametrize("family", FAMILIES)
def test_every_tensor_has_a_place(tiny_models: Write, family: str) -> None:
    path = tiny_models(TinyModel(family))
    with GGUFFile.open(path) as gguf:
        weights = graph_of(path).weights.values()
        assert {weight.source or weight.name for weight in weights} == set(gguf.tensors)
        assert sum(weight.nbytes for weight in weights) == sum(t.n_bytes for t in gguf.tensors.values())


def test_biases_are_taken_from_the_file(tiny_models: Write) -> None:
    graph = graph_of(tiny_models(TinyModel("llama", biases=True, output_bias=True)))
    biases = {bias for op in graph.ops if isinstance(op, Linear) for bias in op.biases if bias}
    assert "blk.0.attn_q.bias" in biases and "blk.1.attn_output.bias" in biases


def test_q_and_k_norm_work_per_head(tiny_models: Write) -> None:
    graph = graph_of(tiny_models(TinyModel("qwen3")))
    norms = [op for op in graph.ops if isinstance(op, RMSNorm) and "attn_q_norm" in op.weight]
    assert len(norms) == 2 and all(op.group == 128 for op in norms)


def test_tied_output_reads_the_embeddings(tiny_models: Write) -> None:
    graph = graph_of(tiny_models(TinyModel(tied=True)))
    last = graph.ops[-1]
    assert isinstance(last, Linear) and last.weights == ("token_embd.weight",) and last.outs == (graph.logits,)


def test_last_block_computes_only_the_rows_asked_for(tiny_models: Write) -> None:
    graph = graph_of(tiny_models(TinyModel()))
    selected = [op for op in graph.ops if isinstance(op, SelectRows)]
    assert {op.item for op in selected} == {"blk.1.attn"} and len(selected) == 2


def test_experts_follow_their_router(tiny_models: Write) -> None:
    graph = graph_of(tiny_models(TinyModel("mixtral")))
    routers = [op for op in graph.ops if isinstance(op, Router)]
    experts = [op for op in graph.ops if isinstance(op, Experts)]
    assert [(r.ids, r.weights) for r in routers] == [(e.ids, e.mix) for e in experts]
    assert {op.item for op in experts} == {"blk.0.experts", "blk.1.experts"}
    assert graph.weights["blk.0.ffn_down_exps.weight"].count == 8
