"""Devices by themselves: names, streams and events, clocks, links; and what a step does when one of them fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.errors import EngineError, OutOfMemoryError
from engine.runtime.devices import (
    DeviceChoice,
    Event,
    Launch,
    LinkRates,
    Stream,
    Task,
    VirtualClock,
    WallClock,
    parse_device,
)
from engine.runtime.devices.emulated import EmulatedDevice
from engine.runtime.devices.memory import DeviceMemory, DeviceMemoryError
from engine.runtime.executor import Chunk, Interrupted
from engine.runtime.placement import Placement
from engine.runtime.schedule import Schedule
from engine.runtime.work import COMPUTE
from tests.support.hybrid_model import HybridModel, banks_of, items_of
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]
TOKENS = list(range(40, 80))


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("cpu", DeviceChoice("cpu")),
        ("emulated:256MiB", DeviceChoice("emulated", 256 << 20)),
        ("emulated:1.5GiB", DeviceChoice("emulated", 3 << 29)),
        ("emulated:0", DeviceChoice("emulated", 0)),
        ("cuda:6GB", DeviceChoice("cuda", 6 * 10**9)),
    ],
)
def test_device_names(text: str, choice: DeviceChoice) -> None:
    assert parse_device(text) == choice


@pytest.mark.parametrize("text", ["gpu", "emulated:much", "emulated:-1MiB", "emulated:3 parsecs", "", "cpu:4GiB"])
def test_what_is_no_device_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(EngineError) as refusal:
        parse_device(text)
    assert refusal.value.remedy


@pytest.mark.parametrize("size", ["1025GiB", "999999999999999GiB", "999999999999999.5MiB"])
def test_more_memory_than_there_can_be_is_refused_in_words(size: str) -> None:
    with pytest.raises(EngineError, match=f"No device has as much memory as {size}"):
        parse_device(f"emulated:{size}")
    assert parse_device("emulated:1024GiB").budget == 1 << 40


@pytest.fixture
def streams() -> Iterator[tuple[Stream, Stream]]:
    clock = VirtualClock()
    pair = Stream("a", clock), Stream("b", clock)
    yield pair
    for stream in pair:
        stream.close()


def test_an_event_orders_two_streams(streams: tuple[Stream, Stream]) -> None:
    first, second = streams
    event, gate, seen = Event(), threading.Event(), list[str]()

    def slow() -> None:
        gate.wait(5)
        seen.append("first")

    launch = Launch(spans=[])
    done = second.launch([Task("b", "GPU", lambda: seen.append("second"), waits=(event,), cost=lambda: 1.0)], launch)
    first.launch([Task("a", "GPU", slow, signals=(event,), cost=lambda: 2.0)], launch)
    assert not done.is_set_within(0.05)
    gate.set()
    assert done.wait() == 3.0 and seen == ["first", "second"]
    assert [(s.name, s.begin, s.end) for s in launch.spans or []] == [("a", 0.0, 2.0), ("b", 2.0, 3.0)]


def test_a_failure_passes_on_what_others_wait_for(streams: tuple[Stream, Stream]) -> None:
    first, second = streams
    event, ran = Event(), list[str]()

    def fail() -> None:
        raise OutOfMemoryError("none left")

    launch = Launch()
    done = second.launch([Task("b", "GPU", lambda: ran.append("b"), waits=(event,))], launch)
    first.launch([Task("a", "GPU", fail, signals=(event,))], launch)
    done.wait()
    assert ran == []
    with pytest.raises(OutOfMemoryError, match="none left"):
        launch.check()


def test_the_link_takes_its_time() -> None:
    device = EmulatedDevice(1 << 20, link=LinkRates(bandwidth=1e6, latency=0.01), clock=WallClock())
    begin = time.perf_counter()
    device.hold_link("weights", 20_000, 0.0)
    assert time.perf_counter() - begin >= 0.03 - 1e-3
    device.close()


@pytest.fixture(scope="module")
def model(tiny_models: Write) -> Iterator[HybridModel]:
    model = HybridModel(tiny_models(TinyModel("qwen3moe", layers=2)))
    banks = banks_of(model.graph)
    items = [item for item in items_of(model.graph) if item not in ("embedding", "blk.1.attn")]
    model.place(Placement(frozenset(items), dict.fromkeys(banks, 3), dict.fromkeys(banks, 3)))
    yield model
    model.close()
    assert model.device.memory.used == 0


def failing(schedule: Schedule, number: int, failure: BaseException) -> Schedule:
    """The device's task of that number fails."""

    def fail() -> None:
        raise failure

    tasks = list(schedule.streams[COMPUTE])
    tasks[number] = replace(tasks[number], work=fail)
    return replace(schedule, streams={**schedule.streams, COMPUTE: tuple(tasks)})


@pytest.mark.parametrize("kind", [MemoryError, OutOfMemoryError, RuntimeError])
def test_a_step_that_fails_on_the_device_can_be_repeated(model: HybridModel, kind: type[Exception]) -> None:
    failure = kind("lost")  # of this test: it keeps alive what it went through
    state, executor = model.new_state(), model.executor
    right = model.extend(state, TOKENS)
    state.truncate(0)
    intact = executor.prefill_schedule
    assert intact is not None
    for number in (0, 2, -1):
        executor.prefill_schedule = failing(intact, number, failure)
        state.reserve(len(TOKENS))
        with pytest.raises(OutOfMemoryError if isinstance(failure, MemoryError) else type(failure)):
            executor.run([Chunk(state, TOKENS, 0)])
    executor.prefill_schedule = intact
    assert np.allclose(model.extend(state, TOKENS), right, atol=1e-4 * right.std(), rtol=0)
    state.release()


def test_a_step_can_be_left_and_repeated(model: HybridModel) -> None:
    state, executor = model.new_state(), model.executor
    right = model.extend(state, TOKENS)
    state.truncate(0)
    state.reserve(len(TOKENS))
    with pytest.raises(Interrupted):
        executor.run([Chunk(state, TOKENS, 0)], lambda: True)
    assert state.length == 0
    assert np.allclose(model.extend(state, TOKENS), right, atol=1e-4 * right.std(), rtol=0)
    state.release()


def test_no_rows_no_logits(model: HybridModel) -> None:
    """A part of a prompt whose logits nobody wants."""
    state = model.new_state()
    state.reserve(len(TOKENS))
    assert model.executor.run([Chunk(state, TOKENS, len(TOKENS))]).shape[0] == 0
    state.commit(TOKENS)
    ours = model.extend(state, [5])
    state.truncate(0)
    assert np.allclose(ours, model.extend(state, [*TOKENS, 5])[-1:], atol=1e-3 * ours.std(), rtol=0)
    state.release()


@pytest.mark.parametrize("size", [1 << 57, 1 << 80])
def test_more_addresses_than_there_are(size: int) -> None:
    memory = DeviceMemory(size)
    with pytest.raises(DeviceMemoryError, match="for weights could not be reserved"):
        memory.reserve(size, "weights")
    assert memory.used == 0
