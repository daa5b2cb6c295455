"""What the page says of a change on its way: an engine that plays scripts, so that each moment can be looked at."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from app.placement.map_cells import GPU, MOVING, RAM
from engine.messages import (
    AskResidency,
    ErrorInfo,
    MigrationProgress,
    PlacementChanged,
    PlacementRolledBack,
    ResidencyTold,
    SetBudget,
)
from engine.runtime.devices.open import emulated_machine
from engine.runtime.pace import corrected
from engine.telemetry.snapshot import GPUReading, TelemetrySnapshot
from tests.support.residency import residency_of
from tests.support.scripted_engine import model_info
from tests.support.shapes import published_shape

GiB = 1 << 30
SHAPE = "qwen3-30b-a3b-q4_k_m"


def told(budget: int):
    return residency_of(published_shape(SHAPE), emulated_machine(), budget)


def shown_colors(view) -> set[int]:
    return set(np.unique(view.drawn_image().pixels).tolist())


def rgb_of(view, place: int) -> int:
    return int(view._palette[place, 0])


class Played:
    def __init__(self, app, qtbot) -> None:
        self.app, self.engine, self.qtbot = app, app.engine, qtbot
        self.page = app.window.page("memory")
        self.live = app.context.placement.live

    def emit(self, event) -> None:
        self.engine.emit(event)
        self.qtbot.wait(60)

    def sent(self, kind) -> list:
        return [command for command in self.engine.commands if isinstance(command, kind)]


@pytest.fixture
def played(start, qtbot):
    def prepare(engine) -> None:
        path = "/models/scripted.gguf"
        engine.info = replace(model_info(path), device="emulated (fast kernels)")

    app = start(prepare)
    app.context.placement.read_shape = lambda _path: published_shape(SHAPE)
    app.window.show_page("memory")
    app.engine.emit(ResidencyTold(told(6 * GiB)))
    placement = app.context.placement
    qtbot.waitUntil(lambda: placement.answer is not None and placement.answer.preview.budget == 6 * GiB)
    played = Played(app, qtbot)
    qtbot.waitUntil(lambda: played.page.traces.isVisible() and not played.page.is_under_way)
    return played


def test_dragging_shows_what_would_move_and_sends_nothing(played, qtbot):
    page = played.page
    page.budget.slider.setValue(8 * 1024)
    qtbot.waitUntil(lambda: played.app.context.placement.answer.preview.budget == 8 * GiB)
    view = page.map.view
    assert view._ghost is not None
    grown = (view._ghost == GPU) & (view._places == RAM)
    lost = (view._ghost == RAM) & (view._places == GPU)
    assert grown.sum() > 0 and lost.sum() == 0
    assert not played.sent(SetBudget)


def test_release_sends_the_budget_and_progress_is_shown_until_it_is_in_force(played):
    page = played.page
    page.budget.choose(8 * GiB)
    assert played.sent(SetBudget) == [SetBudget(8 * GiB)]
    played.emit(MigrationProgress(8 * GiB, GiB // 2, 2 * GiB))
    assert page.strip.isVisible()
    assert "512 MiB of 2.0 GiB" in page.strip.words.text()
    assert page.strip.bar.value() == 250
    assert rgb_of(page.map.view, MOVING) in shown_colors(page.map.view)
    played.emit(PlacementChanged(told(8 * GiB), 1.5))
    assert not page.strip.isVisible()
    assert page.map.view._ghost is None
    assert rgb_of(page.map.view, MOVING) not in shown_colors(page.map.view)
    assert page.budget.slider._committed == 8 * GiB
    assert played.app.context.settings["gpu_budget"] == 8 * 1024


def test_a_card_slower_than_planned_is_planned_with_and_told(played, qtbot):
    """The engine corrected its rates and moved the model off the card: the page's plan says the same, and why."""
    page, placement = played.page, played.app.context.placement
    before = placement.answer.preview.plan
    assert before.gpu.total > GiB and "Measured" not in page.budget.next_words.text()
    off = residency_of(published_shape(SHAPE), corrected(emulated_machine(), {"GPU": 80.0}), 6 * GiB)
    assert off.used_bytes == 0
    played.emit(PlacementChanged(replace(off, pace=(("CPU", 1.05), ("GPU", 80.0))), 0.5))
    qtbot.waitUntil(lambda: placement.answer.wish.pace != ())
    plan = placement.answer.preview.plan
    assert plan.gpu.total == 0 and plan.predicted.decode < before.predicted.decode
    words = page.budget.next_words.text()
    assert words.startswith("Measured slower than planned: the GPU takes 80 times as long.") and "moved to RAM" in words
    assert "processor" not in words and "Everything that gains" not in words
    placement.set_machine("RTX 3060 12GB")
    qtbot.waitUntil(lambda: placement.answer.wish.machine != "")
    assert "Measured" not in page.budget.next_words.text()


def test_cancel_goes_back_to_the_budget_in_force(played):
    played.page.budget.choose(8 * GiB)
    played.emit(MigrationProgress(8 * GiB, GiB // 2, 2 * GiB))
    played.page.strip.button.click()
    assert played.sent(SetBudget)[-1] == SetBudget(6 * GiB)


def test_a_rollback_says_why_and_offers_one_gib_less(played, qtbot):
    page = played.page
    page.budget.choose(8 * GiB)
    error = ErrorInfo("OutOfMemoryError", "The driver gave no more than 7.1 GiB.", "Everything was moved back.")
    played.emit(PlacementRolledBack(8 * GiB, error, told(6 * GiB)))
    assert page.strip.isVisible()
    assert "7.1 GiB" in page.strip.words.text()
    assert "6.0 GiB, is in force again" in page.strip.rest.text()
    assert page.strip.button.text() == "Try 1 GiB lower" and page.strip.again.isVisible()
    qtbot.waitUntil(lambda: page.budget.slider.value() == 6 * 1024)
    page.strip.button.click()
    assert played.sent(SetBudget)[-1] == SetBudget(7 * GiB)


def test_a_rollback_offers_to_try_again_where_that_can_help(played, qtbot):
    """Another program may have taken the memory meanwhile; a pin, or a model that never fits, is as it was."""
    strip = played.page.strip
    played.page.budget.choose(8 * GiB)
    for kind, helps in (("PinError", False), ("ModelDoesNotFitError", False), ("MigrationFailedError", True)):
        played.emit(PlacementRolledBack(8 * GiB, ErrorInfo(kind, "The driver refused."), told(6 * GiB)))
        assert strip.again.isVisible() == helps
    qtbot.waitUntil(lambda: played.page.budget.slider.value() == 6 * 1024)
    strip.again.click()
    assert played.sent(SetBudget)[-1] == SetBudget(8 * GiB) and not strip.again.isVisible()
    played.emit(MigrationProgress(8 * GiB, GiB // 2, 2 * GiB))
    assert strip.isVisible() and not strip.again.isVisible()


def test_heat_deepens_colours_and_the_table_tells_it(played):
    page, residency = played.page, played.live.residency
    cells, view = page._cells, page.map.view
    bank = residency.banks[3]
    levels = view._levels[bank.layer + 1, cells.tensor_columns :]
    hottest, coldest = int(np.argmax(bank.heat)), int(np.argmin(bank.heat))
    assert levels[hottest] > levels[coldest]
    cell = cells.at(bank.layer + 1, cells.tensor_columns + hottest)
    assert f"{bank.heat[hottest]:.1f}" in page.map.describe(cell)
    assert "GPU" in page.map.describe(cell)


def test_bars_show_what_is_really_on_the_device_beside_the_plan(played):
    bar = played.page.bars.gpu._bar
    used = sum(part.bytes for part in bar.now if part.purpose.value != "free in budget")
    assert used == played.live.residency.used_bytes
    assert bar.planned


def test_residency_is_asked_for_only_while_the_page_is_seen(played, qtbot):
    qtbot.waitUntil(lambda: bool(played.sent(AskResidency)))
    played.emit(ResidencyTold(told(6 * GiB)))
    played.app.window.show_page("chat")
    before = len(played.sent(AskResidency))
    played.emit(ResidencyTold(told(6 * GiB)))
    qtbot.wait(600)
    assert len(played.sent(AskResidency)) == before


def test_another_card_is_a_simulation_and_moves_nothing(played, qtbot):
    page = played.page
    page.machine.setCurrentIndex(page.machine.findData("RTX 5090"))
    page.machine.activated.emit(page.machine.currentIndex())
    qtbot.waitUntil(lambda: page.simulated.text() == "simulated")
    page.budget.choose(10 * GiB)
    qtbot.wait(100)
    assert not played.sent(SetBudget)
    assert page.map.view._ghost is None


def test_an_emulated_card_is_as_large_as_its_budget_wants_and_nobody_elses(played, qtbot):
    """Whatever budget is in force can be chosen on the page, and the memory of a real card is not taken from it."""
    placement = played.app.context.placement
    played.app.context.telemetry.close()
    reading = GPUReading("RTX 4070", 12 * GiB, 7 * GiB, 0, 0.5, 0.0, 0.0)
    snapshot = TelemetrySnapshot(1.0, 64 * GiB, 20 * GiB, 2 * GiB, 8 * GiB, 0.5, 0.4, 0.0, (reading,))
    played.app.context.telemetry.take(snapshot)
    assert placement.wish.taken == 0
    card = placement.answer.outlook.marks.card
    played.emit(PlacementChanged(told(40 * GiB), 0.1))
    qtbot.waitUntil(lambda: placement.answer.outlook.marks.largest_safe >= 40 * GiB > card)
    played.emit(PlacementChanged(told(6 * GiB), 0.1))
    assert placement.answer.outlook.marks.largest_safe >= 40 * GiB  # the card does not shrink under its slider


def test_while_a_first_plan_is_made_the_page_says_so(start, qtbot):
    app = start()
    gate = threading.Event()
    placement = app.context.placement
    placement.read_shape = lambda _path: gate.wait(30) and published_shape(SHAPE)
    app.window.show_page("memory")
    page = app.window.page("memory")
    qtbot.waitUntil(lambda: page.notice.isVisible())
    assert page.notice.cause.text() == "Planning…" and not page.empty.isVisible()
    gate.set()
    qtbot.waitUntil(lambda: page.budget.isVisible())
    assert not page.notice.isVisible()
