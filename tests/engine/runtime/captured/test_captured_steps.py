"""Captured steps over the stand-in driver: the same numbers as tasks one by one, in any order that events allow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.runtime.devices.cuda.graphs import Graphs
from engine.runtime.executor import Chunk
from engine.runtime.placement import Placement
from engine.runtime.schedule import Schedule
from tests.support.captured_steps import MODELS, PROMPT, TOKENS, Write, counted, decode, mixed, near
from tests.support.hybrid_model import HybridModel, Open, items_of
from tests.support.native_model import Logits, NativeModel
from tests.support.stand_in_card import set_graph_order
from tests.support.tiny_deepseek2 import TinyDeepSeek2
from tests.support.tiny_models import TinyModel
from tests.support.tiny_qwen3next import TinyQwen3Next

WINDOWS = (("gemma3.attention.sliding_window_pattern", 2), ("gemma3.attention.sliding_window", 8))


def test_replayed_steps_give_the_cpus_logits(model: HybridModel, shape: TinyModel, reference: Logits) -> None:
    steps = len(TOKENS) - PROMPT
    state, rows = decode(model)
    assert near(rows, reference[PROMPT:], shape)
    state.truncate(PROMPT)
    replay = lambda: model.extend(state, TOKENS[PROMPT : PROMPT + 1])  # noqa: E731
    launches = counted("cuLaunchKernel", replay)
    assert launches == 0, "nothing is launched from Python any more"
    state.truncate(PROMPT)
    assert counted("cuGraphLaunch", replay) == 1
    assert steps > 2
    state.release()


@pytest.mark.parametrize(
    "tiny",
    [
        TinyDeepSeek2(mix="Q8_0", experts=4, vocabulary=256, plain=32, value=32, rank=64),
        TinyQwen3Next(mix="Q8_0", experts=4, vocabulary=256),
        TinyModel("gemma3", "Q8_0", layers=2, feed_forward=256, vocabulary=256, overrides=WINDOWS),
        TinyModel("llama4", "Q8_0", layers=4, feed_forward=256, experts=4, vocabulary=256),
    ],
    ids=lambda tiny: tiny.family,
)
def test_other_memories_are_replayed(tiny_models: Write, open_on_card: Open, tiny: TinyModel) -> None:
    """A recurrent state changes its slot with every step; a latent cache has no values of its own; layers with a
    window, or with chunks, have a block table of their own."""
    path = tiny_models(tiny)
    reference, model = NativeModel(path).logits(TOKENS), open_on_card(path)
    model.place(mixed(model))
    state, rows = decode(model)
    graphs = model.executor._graphs
    assert isinstance(graphs, Graphs) and not graphs.is_refused
    assert near(rows, reference[PROMPT:], tiny)
    state.release()


def test_tasks_one_by_one_give_the_same_bits(model: HybridModel) -> None:
    """The same kernels on the same numbers."""
    model.executor.promoter.is_enabled = False  # experts that move are rounded elsewhere
    state, captured = decode(model)
    state.release()
    graphs = model.executor._graphs
    assert isinstance(graphs, Graphs) and not graphs.is_refused
    graphs.is_refused = True
    state, alone = decode(model)
    state.release()
    assert np.array_equal(captured, alone)


def test_every_wait_is_needed_in_a_graph(model: HybridModel, shape: TinyModel, reference: Logits) -> None:
    """The stand-in runs a graph's nodes in any order that the events allow: without one of them, logits are wrong."""
    executor = model.executor
    executor.promoter.is_enabled = False
    intact = executor.schedule
    assert intact is not None and executor._graphs is not None

    def is_right(schedule: Schedule) -> bool:
        executor._graphs.close()
        executor.schedule = schedule
        executor._graphs = model.device.new_graphs(schedule, executor._sides, model.pool.blocks)
        state = model.new_state()
        model.extend(state, TOKENS[: PROMPT + 3])
        model.extend(state, [TOKENS[PROMPT + 3]])  # put on the streams; the next one is captured
        right = True
        for order in range(9):
            begin = PROMPT + order % 3  # other values than the step before
            state.truncate(begin)
            set_graph_order(order)
            right &= near(model.extend(state, [TOKENS[begin]]), reference[begin : begin + 1], shape)
        set_graph_order(0)
        state.release()
        return right

    assert is_right(intact)
    events = [event for tasks in intact.streams.values() for task in tasks for event in task.waits]
    missed = [event for event in events if is_right(intact.without(event))]
    assert len(events) >= 6 and not missed, f"{len(missed)} of {len(events)}"
    executor.schedule = intact


@pytest.mark.parametrize("depth", [1, 2])
def test_prefetched_weights_are_part_of_the_graph(
    tiny_models: Write, open_on_card: Open, monkeypatch: pytest.MonkeyPatch, depth: int
) -> None:
    """Filled by host functions in small chunks, on streams of their own; in any order that events allow."""
    monkeypatch.setattr("engine.runtime.devices.cuda.pieces._CHUNK", 48 << 10)
    shape = replace(MODELS["dense"], layers=3)
    path = tiny_models(shape)
    reference = NativeModel(path).logits(TOKENS)
    model = open_on_card(path)
    blocks = frozenset({"blk.0.ffn", "blk.1.ffn", "blk.2.ffn"})
    rest = frozenset(items_of(model.graph)) - blocks - {"embedding", "blk.0.attn"}
    model.place(Placement(rest, prefetched_for_few=blocks, prefetch_depth=depth))
    state, rows = decode(model)
    assert near(rows, reference[PROMPT:], shape)
    copied = model.executor.residency.traffic.to_device
    for order in range(8):
        state.truncate(PROMPT + order % 3)
        set_graph_order(order)
        token = TOKENS[state.length]
        assert counted("cuGraphLaunch", lambda token=token: model.extend(state, [token])) == 1  # type: ignore[misc]
        state.truncate(state.length - 1)
        assert near(model.extend(state, [token]), reference[state.length - 1 : state.length], shape)
    set_graph_order(0)
    each = sum(model.executor.residency.item_bytes(item) for item in blocks)
    assert model.executor.residency.traffic.to_device - copied >= 16 * each
    state.release()


def test_several_sequences_in_one_step(model: HybridModel, shape: TinyModel, reference: Logits) -> None:
    states = [model.new_state() for _ in range(3)]
    for length, state in zip((4, 7, 9), states, strict=True):
        model.extend(state, TOKENS[:length])
    for _ in range(4):
        for state in states:
            state.reserve(1)
        chunks = [Chunk(state, [TOKENS[state.length]], 0) for state in states]
        rows = model.executor.run(chunks).copy()
        for row, state in zip(rows, states, strict=True):
            state.commit([TOKENS[state.length]])
            assert near(row[None], reference[state.length - 1 : state.length], shape)
    for state in states:
        state.release()


def test_prompts_in_between_keep_graphs_right(model: HybridModel, shape: TinyModel, reference: Logits) -> None:
    """They use memory of the same region, and may move values."""
    state, _ = decode(model, 4)
    for length in (12, 16, 17):
        other = model.new_state()
        model.extend(other, TOKENS[:length])
        other.release()
        row = model.extend(state, [TOKENS[state.length]])
        assert near(row, reference[state.length - 1 : state.length], shape)
    state.release()
