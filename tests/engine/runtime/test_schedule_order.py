"""Every access to shared memory is ordered by streams and events, and each event is needed: without it, one is not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from engine.runtime.devices import Event, Task
from engine.runtime.placement import Placement
from engine.runtime.prefetch import prefetchable
from engine.runtime.schedule import Schedule
from tests.support.hybrid_model import HybridModel, banks_of, items_of, random_placement
from tests.support.native_model import Logits
from tests.support.schedule_order import unordered_accesses
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]
TOKENS = np.random.default_rng(6).integers(0, 512, 40).tolist()


@pytest.fixture(scope="module", params=["llama", "qwen3moe"])
def model(request: pytest.FixtureRequest, tiny_models: Write) -> Iterator[HybridModel]:
    model = HybridModel(tiny_models(TinyModel(request.param, layers=3)))
    model.executor.promoter.is_enabled = False
    yield model
    model.close()


def mixed(model: HybridModel) -> Placement:
    """Attention on the device, one feed-forward block too, a quarter of the experts, five streamed; the other
    feed-forward blocks of a dense model prefetched for each step."""
    items = [i for i in items_of(model.graph) if i.endswith("attn") or i in ("blk.1.ffn", "output")]
    banks, rest = banks_of(model.graph), prefetchable(model.graph) - {"blk.1.ffn"}
    slots, streamed = {bank: count // 4 for bank, count in banks.items()}, dict.fromkeys(banks, 5)
    return Placement(frozenset(items), slots, streamed, rest, rest)


def schedules_of(model: HybridModel) -> list[tuple[str, Schedule]]:
    """By the executor's attribute: for decode, and for prompts where experts are streamed."""
    found = [(name, getattr(model.executor, name)) for name in ("schedule", "prefill_schedule")]
    return [(name, schedule) for name, schedule in found if schedule is not None]


def events_of(schedule: Schedule) -> list[Event]:
    return [event for stream in schedule.streams.values() for task in stream for event in task.waits]


@pytest.mark.parametrize("seed", range(10))
def test_every_access_is_ordered(model: HybridModel, seed: int) -> None:
    model.place(random_placement(model.graph, Random(seed)))
    for _, schedule in schedules_of(model):
        assert unordered_accesses(schedule) == []


def test_every_event_is_needed(model: HybridModel) -> None:
    model.place(mixed(model))
    schedules = schedules_of(model)
    assert len(schedules) == (2 if banks_of(model.graph) else 1)
    for _, schedule in schedules:
        events = events_of(schedule)
        assert len(events) >= 6
        for event in events:
            assert unordered_accesses(schedule.without(event)), "an access stays ordered without this event"


def test_a_missing_wait_changes_the_logits(model: HybridModel) -> None:
    """Where a task is late, whoever does not wait for it computes with what was there before."""
    model.place(mixed(model))
    for name, intact in schedules_of(model):
        check_waits(model, name, intact)


def check_waits(model: HybridModel, name: str, intact: Schedule) -> None:
    tokens = TOKENS if name == "prefill_schedule" else TOKENS[:12]
    right = logits(model, name, intact, tokens)

    def is_right(schedule: Schedule) -> bool:
        found = logits(model, name, schedule, tokens)
        return np.allclose(found, right, atol=1e-3 * right.std(), rtol=0)

    def breaks(
        event: Event, seconds: float, name: str = name, intact: Schedule = intact, tokens: list[int] = tokens
    ) -> bool:
        logits(model, name, intact, tokens[::-1])  # leaves other values wherever one may be read too early
        return not is_right(late(intact.without(event), of=intact, event=event, seconds=seconds))

    for event in events_of(intact):
        assert any(breaks(event, seconds) for seconds in (0.01, 0.1, 1.0)), "on a busy machine, late is later"
    assert is_right(late(intact, of=intact, event=events_of(intact)[-1], seconds=0.05))


def logits(model: HybridModel, name: str, schedule: Schedule, tokens: list[int]) -> Logits:
    """What a fresh sequence gives under a schedule."""
    intact = getattr(model.executor, name)
    setattr(model.executor, name, schedule)
    state = model.new_state()
    found = model.extend(state, tokens)
    state.release()
    setattr(model.executor, name, intact)
    return found


def late(schedule: Schedule, *, of: Schedule, event: Event, seconds: float) -> Schedule:
    """`schedule`, made from `of`, in which the task that sets `event` takes its time."""

    def delay(task: Task, original: Task) -> Task:
        def work() -> None:
            time.sleep(seconds)
            task.work()

        return replace(task, work=work) if event in original.signals else task

    streams = {name: tuple(map(delay, tasks, of.streams[name])) for name, tasks in schedule.streams.items()}
    return replace(schedule, streams=streams)
