"""Steps of few tokens on the emulated device, on native threads: the same bits as tasks, little Python, every event
needed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from engine.errors import EngineError
from engine.runtime.devices import LinkRates
from engine.runtime.devices.native_step import MOST_TOKENS, NativeSteps
from engine.runtime.executor import Chunk
from engine.runtime.placement import Placement
from kernels._cpu import HostCopy, StepStreams
from tests.support.hybrid_model import HybridModel, banks_of, items_of, random_placement
from tests.support.native_model import Logits
from tests.support.python_calls import python_calls
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]
MODELS = {
    "dense": TinyModel("llama", "Q8_0", layers=3, feed_forward=256, vocabulary=256),
    "experts": TinyModel("qwen3moe", "Q8_0", layers=3, feed_forward=256, experts=8, vocabulary=256),
}
TOKENS = np.random.default_rng(4).integers(0, 256, 16).tolist()
PROMPT = 9
MOST_CALLS = 220


def place(model: HybridModel, placement: Placement) -> None:
    """And leaves experts where they are: those that move are rounded elsewhere."""
    model.place(placement)
    model.executor.promoter.is_enabled = False


def decode(model: HybridModel) -> Logits:
    state = model.new_state()
    model.extend(state, TOKENS[:PROMPT])
    rows = np.concatenate([model.extend(state, [token]) for token in TOKENS[PROMPT:]])
    state.release()
    return rows


@pytest.mark.parametrize("kind", list(MODELS))
@pytest.mark.parametrize("seed", range(4))
def test_the_same_bits_as_tasks(tiny_models: Write, kind: str, seed: int) -> None:
    model = HybridModel(tiny_models(MODELS[kind]))
    place(model, random_placement(model.graph, Random(seed)))
    if model.executor._graphs is None:
        assert not model.executor.placement.uses_device
        model.close()
        return
    assert isinstance(model.executor._graphs, NativeSteps)
    native, traffic = decode(model), model.executor.residency.traffic
    before = traffic.to_device, traffic.to_host
    assert np.array_equal(decode(model), native)
    carried = traffic.to_device - before[0], traffic.to_host - before[1]
    model.executor._graphs = None
    before = traffic.to_device, traffic.to_host
    assert np.array_equal(decode(model), native)
    assert (traffic.to_device - before[0], traffic.to_host - before[1]) == carried
    model.close()


def test_several_sequences_and_uses(tiny_models: Write) -> None:
    model = HybridModel(tiny_models(MODELS["experts"]))
    items = frozenset(items_of(model.graph)) - {"embedding", "blk.1.attn"}
    place(model, Placement(items, dict.fromkeys(banks_of(model.graph), 3)))
    states = [model.new_state() for _ in range(MOST_TOKENS + 1)]
    for number, state in enumerate(states):
        model.extend(state, TOKENS[: 2 + number])

    def step(count: int) -> tuple[Logits, list[float]]:
        for state in states[:count]:
            state.reserve(1)
        before = model.executor.heat.recorded_tokens
        rows = model.executor.run([Chunk(state, [7], 0) for state in states[:count]]).copy()
        counts, tokens = model.executor.heat.take_record()
        assert tokens - before == count
        return rows, [sum(uses) for uses in counts.values()]

    graphs = model.executor._graphs
    model.executor.heat.take_record()
    for count in (1, 3, MOST_TOKENS, MOST_TOKENS + 1):
        model.executor._graphs = graphs
        rows, uses = step(count)
        model.executor._graphs = None
        alone, known = step(count)
        assert np.array_equal(rows, alone) and uses == known
    model.executor._graphs = graphs
    for state in states:
        state.release()
    model.close()


def test_a_step_calls_little_whatever_the_layers(tiny_models: Write) -> None:
    counts = []
    for layers in (2, 6):
        model = HybridModel(tiny_models(replace(MODELS["experts"], layers=layers)))
        items = frozenset(items_of(model.graph)) - {"embedding"}
        place(model, Placement(items, dict.fromkeys(banks_of(model.graph), 3)))
        state = model.new_state()
        for token in TOKENS[:4]:
            model.extend(state, [token])
        state.reserve(1)
        counts.append(python_calls(lambda model=model, state=state: model.executor.run([Chunk(state, [7], 0)])))  # type: ignore[misc]
        state.release()
        model.close()
    assert counts[0] == counts[1] <= MOST_CALLS


def test_every_event_is_needed(tiny_models: Write) -> None:
    """Without one, somebody computes with what was there before, if whom it waits for is late."""
    model = HybridModel(tiny_models(MODELS["experts"]), link=LinkRates(1e12, 2e-3))
    items = [i for i in items_of(model.graph) if i.endswith("attn") or i in ("blk.1.ffn", "output")]
    place(model, Placement(frozenset(items), {bank: count // 2 for bank, count in banks_of(model.graph).items()}))
    executor, state = model.executor, model.new_state()
    intact = executor.schedule
    assert intact is not None
    model.extend(state, TOKENS[:PROMPT])

    def logits(token: int) -> Logits:
        state.truncate(PROMPT)
        return model.extend(state, [token])

    right = {token: logits(token).copy() for token in (3, 5)}
    arrivals = [
        event for tasks in (intact.streams["CPU"], intact.streams["compute"]) for t in tasks for event in t.waits
    ]
    assert len(arrivals) >= 4
    for event in arrivals:
        executor.schedule = intact.without(event)
        executor._graphs = model.device.new_graphs(executor.schedule, executor._sides, model.pool.blocks)
        # Up to so many steps: on a busy machine the one that does not wait may come late by itself.
        found = (np.array_equal(logits(token), right[token]) for token in (3, 5) * 10)
        assert not all(found), "a copy takes two milliseconds, and nobody noticed that it was not waited for"
    state.release()
    model.close()


def test_a_failing_segment_ends_the_step(tiny_models: Write) -> None:
    model = HybridModel(tiny_models(MODELS["dense"]))
    place(model, Placement(frozenset({"blk.1.ffn", "output"})))
    right, state = decode(model), model.new_state()
    state.reserve(1)
    with pytest.raises(EngineError, match=r"processor's share of a step failed: .*token 9999 is outside the table"):
        model.executor.run([Chunk(state, [9999], 0)])
    state.release()
    assert np.array_equal(decode(model), right)
    model.close()


def test_traced_steps_tell_all_lanes(tiny_models: Write) -> None:
    model = HybridModel(tiny_models(MODELS["experts"]))
    items = frozenset(items_of(model.graph)) - {"embedding"}
    place(model, Placement(items, dict.fromkeys(banks_of(model.graph), 3)))
    state = model.new_state()
    model.extend(state, [1])
    model.executor.trace = []
    model.extend(state, [2])
    spans, schedule = model.executor.trace, model.executor.schedule
    assert schedule is not None
    for stream, tasks in schedule.streams.items():
        assert [s.name for s in spans if s.stream == stream] == [task.name for task in tasks]
    assert {span.lane for span in spans} == {"CPU", "GPU", "link"}
    assert all(span.end >= span.begin for span in spans)
    state.release()
    model.close()


def test_streams_wait_for_events_and_for_the_link() -> None:
    """What is copied from is filled by another stream, which the link holds back."""
    a, b, c = (np.array([value], np.int64) for value in (7, 0, 0))
    streams, first, second = StepStreams(3), HostCopy(), HostCopy()
    first.add(b.ctypes.data, a.ctypes.data, 8)
    second.add(c.ctypes.data, b.ctypes.data, 8)
    event = streams.event()
    slow = streams.add(1, first.function, first.data, 0.02, [], [event])
    late = streams.add(0, second.function, second.data, 0.0, [event], [])
    for value in (7, 8, 9):
        a[0] = value
        began = time.perf_counter()
        streams.run()
        assert c[0] == value and time.perf_counter() - began >= 0.019
        assert streams.times[late][0] >= streams.times[slow][1] >= streams.times[slow][0] + 0.019
    assert streams.busy_seconds(1) >= 0.019 and streams.busy_seconds(2) == 0
    with pytest.raises(IndexError):
        streams.add(0, first.function, first.data, 0.0, [5], [])
