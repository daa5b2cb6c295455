"""The bridge: order, batches, and nothing lost on the way."""

from __future__ import annotations

import threading
import time

import pytest

from app.engine_client import DRAIN_INTERVAL, EngineClient
from engine.messages import EngineStopped, LoadModel, ModelLoaded, TokenEvent, UnloadModel
from tests.support.scripted_engine import ScriptedEngine


@pytest.fixture
def client(qapp):
    engines = []
    gate = threading.Event()

    def factory(on_event):
        gate.wait(10)
        engines.append(ScriptedEngine(on_event))
        return engines[0]

    client = EngineClient(factory)
    client.engines, client.gate, client.batches = engines, gate, []
    client.drained.connect(lambda events: client.batches.append((time.monotonic(), events)))
    yield client
    gate.set()
    client.close()


def test_commands_sent_before_the_engine_stands_arrive_in_order(client, qtbot):
    client.start()
    client.send(LoadModel("a"))
    client.send(UnloadModel())
    assert client.engines == []
    client.gate.set()
    qtbot.waitUntil(lambda: bool(client.engines) and len(client.engines[0].commands) == 2)
    client.send(LoadModel("b"))
    assert client.engines[0].commands == [LoadModel("a"), UnloadModel(), LoadModel("b")]


def test_events_come_in_order_and_in_batches(client, qtbot):
    client.gate.set()
    client.start()
    qtbot.waitUntil(lambda: bool(client.engines))

    def play():
        for number in range(3000):
            client.engines[0].emit(TokenEvent("r", str(number)))
            if number % 100 == 0:
                time.sleep(0.003)

    thread = threading.Thread(target=play)
    thread.start()
    qtbot.waitUntil(lambda: sum(len(events) for _, events in client.batches) == 3000, timeout=20000)
    thread.join()
    assert [arrival.event.text for _, events in client.batches for arrival in events] == [str(n) for n in range(3000)]
    gaps = [b - a for (a, _), (b, _) in zip(client.batches, client.batches[1:], strict=False)]
    assert all(gap > DRAIN_INTERVAL * 0.8 for gap in gaps)


def test_an_engine_that_cannot_be_made_is_told(qapp, qtbot):
    def factory(on_event):
        raise RuntimeError("no kernels")

    client = EngineClient(factory)
    seen = []
    client.drained.connect(seen.extend)
    client.start()
    qtbot.waitUntil(lambda: bool(seen))
    assert isinstance(seen[0].event, EngineStopped)
    assert "no kernels" in seen[0].event.error.cause
    client.close()


def test_nothing_is_delivered_after_close(client, qtbot):
    client.gate.set()
    client.start()
    client.send(LoadModel("a"))
    qtbot.waitUntil(lambda: any(isinstance(e.event, ModelLoaded) for _, batch in client.batches for e in batch))
    client.close()
    count = len(client.batches)
    client.engines[0].emit(TokenEvent("r", "late"))
    qtbot.wait(50)
    assert len(client.batches) == count
