"""CPU, GPU and link work at the same time: steps on a virtual clock, from the executor's own streams and events."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.runtime.devices import LinkRates, VirtualClock
from engine.runtime.expert_slots import Promotion
from engine.runtime.placement import Placement
from engine.runtime.rates import Rates
from engine.runtime.trace import busy_seconds, chrome_trace, write_trace
from tests.support.hybrid_model import HybridModel, banks_of, items_of
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]
# Every token uses every expert, so that hits and misses are as many in each layer and step.
MODEL = TinyModel("qwen3moe", layers=4, experts=8, experts_used=8, feed_forward=512)
SLOTS = 6
EXPERT_BYTES = 3 * 256 * 512 * 4
# While one is on its way, five are on the device and three are not: a layer's halves take about as long as its copy.
RATES = Rates(cpu_bandwidth=EXPERT_BYTES / 1.6e-3, device_bandwidth=EXPERT_BYTES / 1e-3)
LINK = LinkRates(bandwidth=EXPERT_BYTES / 4.5e-3, latency=10e-6)
TOKENS = np.random.default_rng(3).integers(0, 512, 16).tolist()


@pytest.fixture
def model(tiny_models: Write) -> Iterator[HybridModel]:
    model = HybridModel(tiny_models(MODEL), link=LINK, clock=VirtualClock(), costs=RATES.seconds)
    items = [item for item in items_of(model.graph) if item != "embedding"]
    model.place(Placement(frozenset(items), dict.fromkeys(banks_of(model.graph), SLOTS)))
    model.executor.promoter.is_enabled = False
    yield model
    model.close()


def decode_with_promotions(model: HybridModel, steps: int = 6) -> tuple[float, dict[str, float]]:
    """Seconds of some steps, in each of which an expert per layer is on its way; and how long each lane worked."""
    state, promoter = model.new_state(), model.executor.promoter
    model.extend(state, TOKENS[:8])
    begin = promoter.now
    model.executor.trace = promoter.trace = []
    for step in range(steps):
        tables = {bank: memory.table for bank, memory in model.executor.residency.banks.items()}
        promoter.begin([Promotion(b, int(np.flatnonzero(t.absent)[0]), step % SLOTS) for b, t in tables.items()])
        model.extend(state, [TOKENS[8 + step]])
        promoter.finish()
    state.release()
    spans = model.executor.trace
    return promoter.now - begin, busy_seconds(spans)


def test_a_step_takes_little_more_than_its_busiest_lane(model: HybridModel) -> None:
    seconds, busy = decode_with_promotions(model)
    assert seconds <= 1.15 * max(busy.values())
    assert sum(busy.values()) >= 1.8 * max(busy.values())


def test_weights_on_the_compute_stream_would_be_noticed(model: HybridModel) -> None:
    """The mutation: copies of weights queue with the operations."""
    model.device.weights, own = model.device.compute, model.device.weights
    seconds, busy = decode_with_promotions(model)
    model.device.weights = own
    assert seconds > 1.15 * max(busy.values())


def test_weights_on_the_activations_stream_would_be_noticed(model: HybridModel) -> None:
    model.device.weights, own = model.device.activations, model.device.weights
    seconds, busy = decode_with_promotions(model)
    model.device.weights = own
    assert seconds > 1.15 * max(busy.values())


def test_a_prompt_keeps_all_three_busy(tiny_models: Write) -> None:
    """Five experts are on the device, five come over the link, and the CPU computes six."""
    shape = TinyModel("qwen3moe", layers=4, experts=16, experts_used=16, feed_forward=512)
    rates = Rates(cpu_bandwidth=EXPERT_BYTES / 1.5e-3, device_bandwidth=EXPERT_BYTES / 1e-3)
    model = HybridModel(
        tiny_models(shape), link=LinkRates(EXPERT_BYTES / 1.8e-3, 10e-6), clock=VirtualClock(), costs=rates.seconds
    )
    items, banks = [item for item in items_of(model.graph) if item != "embedding"], banks_of(model.graph)
    model.place(Placement(frozenset(items), dict.fromkeys(banks, 5), dict.fromkeys(banks, 5)))
    model.executor.trace = []
    state = model.new_state()
    model.extend(state, [*TOKENS, *TOKENS])
    state.release()
    assert {span.stream for span in model.executor.trace} == {"CPU", "compute", "activations", "weights"}
    busy, step = busy_seconds(model.executor.trace), model.executor.times.latest[-1]
    assert step.seconds <= 1.15 * max(busy.values())
    assert sum(busy.values()) >= 1.8 * max(busy.values())
    model.close()


def test_hits_and_misses_run_at_the_same_time(model: HybridModel) -> None:
    state = model.new_state()
    model.executor.trace = []
    model.extend(state, TOKENS[:1])
    spans = {span.name: span for span in model.executor.trace}
    for layer in range(MODEL.layers):
        hits, misses = spans[f"blk.{layer}.experts.hits"], spans[f"blk.{layer}.experts.misses"]
        assert hits.lane == "GPU" and misses.lane == "CPU"
        assert max(hits.begin, misses.begin) < min(hits.end, misses.end)
    state.release()


def test_the_trace_is_chromes(model: HybridModel, tmp_path: Path) -> None:
    decode_with_promotions(model, steps=2)
    assert model.executor.trace is not None
    write_trace(model.executor.trace, tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace == json.loads(json.dumps(chrome_trace(model.executor.trace)))
    names = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert set(names.values()) == {"CPU", "GPU: compute", "link: activations", "link: weights"}
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert {e["tid"] for e in events} == set(names) and min(e["ts"] for e in events) == 0
    for tid in names:
        row = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["tid"] == tid)
        assert all(b[0] >= a[1] - 1e-3 for a, b in itertools.pairwise(row)), "a stream does one thing at a time"
