"""The driver moves memory of the card to RAM, and the window says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.engine_client import Arrival
from app.placement.spill import lower_budget, spilled_bytes
from app.placement.spill_watch import LOOKS
from app.problems import Problem
from engine.messages import ModelLoaded, ResidencyTold, SetBudget
from engine.telemetry.residency import ResidencySnapshot
from engine.telemetry.snapshot import GPUReading, TelemetrySnapshot
from tests.engine.telemetry.test_nvml import library, read  # noqa: F401 - a driver that stands in
from tests.support.scripted_engine import model_info

GiB, MiB = 1 << 30, 1 << 20
CARD = GPUReading("card", 12 * GiB, 7 * GiB, None, 0.5, None, None)
HELD = ResidencySnapshot("card", 9 * GiB, 8 * GiB)


@pytest.mark.parametrize(
    ("residency", "gpu", "spilled"),
    [
        (HELD, CARD, GiB),
        (HELD, replace(CARD, used=8 * GiB), 0),
        (HELD, replace(CARD, used=8 * GiB - 100 * MiB), 0),  # two clocks
        (HELD, replace(CARD, used=None), 0),
        (HELD, None, 0),
        (None, CARD, 0),
        (replace(HELD, device="emulated (fast kernels)"), CARD, 0),
    ],
)
def test_what_we_hold_beyond_all_that_is_in_use(residency, gpu, spilled):
    assert spilled_bytes(residency, gpu) == spilled


def test_the_lower_budget_makes_room(library):  # noqa: F811
    reading = read(library())  # 5 GiB are in use
    spilled = spilled_bytes(HELD, reading)
    assert spilled == 3 * GiB
    budget = lower_budget(HELD, spilled)
    assert budget % MiB == 0 and budget < HELD.budget_bytes - spilled


def test_a_card_without_memory_of_its_own_is_recognised(library):  # noqa: F811
    reading = read(library(MEMORY=3))
    assert reading.is_unified and reading.used is None
    assert spilled_bytes(HELD, reading) == 0
    assert not read(library(MEMORY=4)).is_unified  # it may not be read


@pytest.fixture
def cards(app):
    feed = app.context.telemetry
    feed.close()
    app.context.client.drained.emit([Arrival(0.0, ModelLoaded(replace(model_info(), device="card"), 1.0))])
    shown = []
    app.context.problems.raised.connect(shown.append)
    app.context.problems.cleared.connect(shown.append)

    def look(times: int, gpu: GPUReading = CARD) -> list:
        feed.handle_all([Arrival(1.0, ResidencyTold(HELD))])
        for number in range(times):
            feed.take(TelemetrySnapshot(float(number), 64 * GiB, 9 * GiB, 2 * GiB, 0, 0.5, 0.2, None, (gpu,)))
        return shown

    return look


def test_it_is_told_once_with_a_way_out_and_taken_back(app, cards):
    assert cards(LOOKS - 1) == []
    (problem,) = cards(3 * LOOKS)
    assert "1.0 GiB" in problem.cause
    problem.actions[0].run()
    sent = [command for command in app.engine.commands if isinstance(command, SetBudget)]
    assert sent[-1].gpu_bytes == lower_budget(HELD, GiB)
    app.context.placement.live.progress = None
    assert cards(1, replace(CARD, used=9 * GiB))[-1] == "spill"


def test_the_memory_page_tells_it_and_nothing_else(app, cards):
    cards(LOOKS)
    app.window.show_page("memory")  # made only now
    stack = app.window.page("memory").spill
    assert [card.problem.key for card in stack.cards] == ["spill"] and stack.isVisible()
    app.context.problems.show(Problem("model", "The file is gone."))
    assert len(stack.cards) == 1
    cards(1, replace(CARD, used=9 * GiB))
    assert not stack.cards


def test_a_unified_card_is_named_in_the_traces(open_memory):
    memory = open_memory(gpu="")
    feed = memory.app.context.telemetry
    feed.close()
    card = replace(CARD, used=None, total=None, is_unified=True)
    feed.take(TelemetrySnapshot(1.0, 64 * GiB, 9 * GiB, 2 * GiB, 0, 0.5, 0.2, None, (card,)))
    assert "no memory of its own" in memory.page.traces.why.text()
