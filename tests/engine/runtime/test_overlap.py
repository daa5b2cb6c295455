"""CPU, GPU and link work at the same time: steps on a virtual clock, from the executor's own streams and events."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from engine.runtime.trace import chrome_trace, write_trace
from tests.bench import overlap
from tests.support.hybrid_model import HybridModel
from tests.support.overlap import (
    MODEL,
    TOKENS,
    decode_with_promotions,
    dense_step,
    expert_model,
    prompt_with_streams,
)
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]


@pytest.fixture
def model(tiny_models: Write) -> Iterator[HybridModel]:
    model = expert_model(tiny_models)
    yield model
    model.close()


def test_a_step_takes_little_more_than_its_busiest_lane(model: HybridModel) -> None:
    steps = decode_with_promotions(model)
    assert steps.above_busiest <= 1.15 and steps.serial >= 1.8


def test_weights_on_the_compute_stream_would_be_noticed(model: HybridModel) -> None:
    """The mutation: copies of weights queue with the operations."""
    model.device.weights, own = model.device.compute, model.device.weights
    steps = decode_with_promotions(model)
    model.device.weights = own
    assert steps.above_busiest > 1.15


def test_weights_on_the_activations_stream_would_be_noticed(model: HybridModel) -> None:
    model.device.weights, own = model.device.activations, model.device.weights
    steps = decode_with_promotions(model)
    model.device.weights = own
    assert steps.above_busiest > 1.15


def test_a_prompt_keeps_all_three_busy(tiny_models: Write) -> None:
    step = prompt_with_streams(tiny_models)
    assert {span.stream for span in step.spans} == {"CPU", "compute", "activations", "weights"}
    assert step.above_busiest <= 1.15 and step.serial >= 1.8


def test_the_link_works_beside_a_dense_prompt(tiny_models: Write) -> None:
    """What the planner prefetches is copied while the CPU computes, so that the CPU has half as much to do."""
    alone, step = (dense_step(tiny_models, decode=False, prefetched=prefetched) for prefetched in (False, True))
    assert step.seconds <= 0.65 * alone.seconds
    assert step.above_busiest <= 1.15 and step.serial >= 1.8


@pytest.mark.parametrize("copying", [0.5, 1, 1.5, 2, 3, 4, 5, 6, 8, 12, 16])
def test_a_prompt_keeps_them_busy_whatever_the_links_speed(tiny_models: Write, copying: float) -> None:
    """`copying`: milliseconds for an expert."""
    step = prompt_with_streams(tiny_models, 1e-3 * copying)
    assert step.above_busiest <= 1.15 and step.serial >= (1.8 if copying > 0.5 else 1.6)


@pytest.mark.parametrize("decode", [False, True], ids=["prompt", "decode"])
@pytest.mark.parametrize("copying", [1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16])
def test_copies_hide_behind_a_dense_step_or_it_behind_them(tiny_models: Write, copying: float, decode: bool) -> None:
    """Whatever the link's speed. One batch passes through CPU and GPU by turns, so what they take, with what goes
    between them, adds up; copies of weights come beside that. The planner knows it all beforehand."""
    step = dense_step(tiny_models, decode=decode, copying=1e-3 * copying)
    weights = sum(span.end - span.begin for span in step.spans if span.stream == "weights")
    chain = sum(span.end - span.begin for span in step.spans if span.stream != "weights")
    assert weights > 0
    assert step.above_busiest <= 1.15 and step.serial >= (1.78 if copying > 1 else 1.6)
    assert step.seconds <= 1.05 * max(weights, chain)
    assert step.seconds == pytest.approx(step.predicted, rel=0.02)


@pytest.mark.parametrize("decode", [False, True], ids=["prompt", "decode"])
def test_buffers_for_one_block_would_be_noticed(tiny_models: Write, decode: bool) -> None:
    """Copies that do not run further ahead wait for what is computed."""
    step = dense_step(tiny_models, decode=decode, copying=3e-3, depth=1)
    assert step.above_busiest > 1.15 and step.serial >= 1.8


def test_the_picture_shows_every_lane(tiny_models: Write, tmp_path: Path) -> None:
    cases = [prompt_with_streams(tiny_models)]
    text = overlap.picture(cases)
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg") and text.count("<rect") >= len(cases[0].spans)
    assert all(f">{lane}<" in text for lane in ("CPU", "GPU", "link"))
    (row,) = overlap.table(cases).splitlines()[2:]
    assert row.startswith("| prompt, experts |") and "simulated" in overlap.table(cases)


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
