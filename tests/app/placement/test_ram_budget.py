"""The RAM budget beside the slider: shown at once, held by the engine, or refused with one button."""

from __future__ import annotations

import pytest

from engine.messages import ErrorInfo, RamBudgetTold, ResidencyTold, SetRamBudget
from engine.telemetry.residency import RamUse
from engine.telemetry.snapshot import TelemetrySnapshot

GiB, MiB = 1 << 30, 1 << 20
USE = RamUse(18 * GiB, 2 * GiB, GiB // 2, used_state=GiB, kept_state=GiB // 4)


def sent(memory) -> list[SetRamBudget]:
    return [command for command in memory.app.engine.commands if isinstance(command, SetRamBudget)]


@pytest.fixture
def here(open_memory):
    """This machine, without a GPU."""
    return open_memory(gpu="")


def test_what_is_chosen_is_planned_at_once_and_held_when_it_has_settled(here, qtbot):
    here.page.budget.ram.setValue(24)
    qtbot.waitUntil(lambda: here.answer.outlook.ram_limit == 24 * GiB)
    qtbot.waitUntil(lambda: len(sent(here)) == 1)
    assert sent(here) == [SetRamBudget(24 * GiB)]
    here.app.engine.emit(RamBudgetTold(24 * GiB, USE))
    qtbot.waitUntil(lambda: here.app.context.settings["ram_budget"] == 24 * 1024)
    here.page.budget.ram.setValue(here.page.budget.ram.maximum())  # all there is: no budget
    qtbot.waitUntil(lambda: len(sent(here)) == 2)
    assert sent(here)[-1] == SetRamBudget(None)


def test_a_refusal_says_why_and_offers_what_would_do(here, qtbot):
    page = here.page
    page.budget.ram.setValue(8)
    qtbot.waitUntil(lambda: here.answer.preview.plan is None)
    assert "RAM" in page.budget.next_words.text()
    qtbot.waitUntil(lambda: len(sent(here)) == 1)
    error = ErrorInfo(
        "ModelDoesNotFitError", "It needs 20.5 GiB of RAM, and 8.0 GiB may be used.", "Nothing was loaded."
    )
    here.app.engine.emit(RamBudgetTold(8 * GiB, USE, error))
    qtbot.waitUntil(page.strip.isVisible)
    assert "20.5 GiB" in page.strip.words.text() and page.strip.button.text() == "Allow 20.5 GiB"
    qtbot.waitUntil(lambda: here.answer.preview.plan is not None)  # what is in force is planned again
    assert page.budget.ram.value() == page.budget.ram.maximum()
    assert here.app.context.settings["ram_budget"] == 0
    page.strip.button.click()
    qtbot.waitUntil(lambda: len(sent(here)) == 2)
    assert sent(here)[-1].ram_bytes == round(20.5 * 1024) * MiB


def test_on_another_machine_it_is_a_simulation(memory, qtbot):
    memory.page.budget.ram.setValue(24)
    qtbot.waitUntil(lambda: memory.answer.outlook.ram_limit == 24 * GiB)
    qtbot.wait(700)
    assert not sent(memory)


def test_the_bar_tells_caches_from_the_rest_and_what_is_free_in_the_budget(here, qtbot):
    here.app.context.telemetry.close()
    here.app.engine.emit(ResidencyTold(None, RamUse(18 * GiB, 2 * GiB, 0, used_state=GiB, limit=24 * GiB)))
    qtbot.wait(60)
    here.app.context.telemetry.take(TelemetrySnapshot(1.0, 64 * GiB, 20 * GiB, 3 * GiB, 18 * GiB, 0.5, 0.2, 0.0))
    parts = {part.purpose.value: part.bytes for part in here.page.bars.ram._bar.now}
    assert parts == {
        "KV cache": GiB,
        "app and scratch": 2 * GiB,
        "page cache of the model": 18 * GiB,
        "free in budget": 3 * GiB,
        "other programs": 17 * GiB,
    }
