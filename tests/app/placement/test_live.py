"""Sliding the budget of a model that really runs on an emulated device, while it answers."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from random import Random
from statistics import median

import numpy as np
import psutil
import pytest

from app.context import AppContext
from app.crash import CrashHandler
from app.environment import DataFolder
from app.placement.map_cells import DISK, GPU, RAM
from engine.messages import (
    FinishReason,
    Generate,
    GenerationFinished,
    GenerationRequest,
    PlacementChanged,
    PlacementRolledBack,
    ResidencyTold,
    SamplingParams,
    TokenEvent,
)
from tests.support.tiny_models import TinyModel

MiB = 1 << 20
TIMEOUT = 60_000
BUDGET = 64  # MiB, in which all of the model has room


class Live:
    """The application with its memory page open, and everything that the engine said about placement."""

    def __init__(self, context: AppContext, qtbot) -> None:
        self.context, self.qtbot = context, qtbot
        self.page = context.window.page("memory")
        self.samples = 0  # of the residency
        self.over_budget: list = []  # of them
        self.texts: dict[str, str] = {}
        self.ends: dict[str, FinishReason] = {}
        self.outcomes: list = []
        self.checked = 0
        context.client.drained.connect(self._take)

    @property
    def live(self):
        return self.context.placement.live

    def _take(self, arrivals) -> None:
        for _, event in arrivals:
            match event:
                case TokenEvent(request_id=key, text=text):
                    self.texts[key] = self.texts.get(key, "") + text
                case GenerationFinished(request_id=key, reason=reason):
                    self.ends[key] = reason
                case ResidencyTold(residency=residency) if residency is not None:
                    self._check(residency)
                case PlacementChanged(residency=residency) | PlacementRolledBack(residency=residency):
                    self._check(residency)
                    self.outcomes.append(event)

    def _check(self, residency) -> None:
        self.samples += 1
        if residency.used_bytes > residency.budget_bytes:
            self.over_budget.append(residency)
        self.check_map(residency)

    def check_map(self, residency) -> None:
        """The map shows the executor's own tables. (The page has drawn this sample: it listens before us.)"""
        cells, places = self.page._cells, self.page.map.view._places
        if cells is None or places is None or self.live.residency is not residency:
            return
        self.checked += 1
        there = {item.name for item in residency.items if item.on_device}
        for (row, column), cell in cells.tensors.items():
            ram = DISK if (cell.item, -1) in self.live.ram.on_disk else RAM
            assert places[row, column] == (GPU if cell.item in there else ram), cell.name
        for bank in residency.banks:
            row = places[bank.layer + 1, cells.tensor_columns :]
            assert set(np.flatnonzero(row == GPU)) == set(bank.residents)

    def answer(self, key: str, tokens: int = 64) -> None:
        request = GenerationRequest(
            key, (), SamplingParams(temperature=0.0), max_tokens=tokens, raw_prompt="The quick brown fox jumps over"
        )
        self.context.client.send(Generate(request))

    def wait_for(self, condition) -> None:
        self.qtbot.waitUntil(condition, timeout=TIMEOUT)


@pytest.fixture
def live(qapp, qtbot, tmp_path, tiny_models) -> Iterator[Live]:
    folder = DataFolder(tmp_path / "data")
    folder.models.mkdir(parents=True)
    shutil.copyfile(tiny_models(TinyModel("qwen3moe", layers=3)), folder.models / "tiny.gguf")
    context = AppContext(qapp, folder, CrashHandler(folder.logs))
    for name, value in {"threads": 1, "context_length": 512, "device": "emulated", "gpu_budget": BUDGET}.items():
        context.settings.set(name, value)
    context.window.show()
    context.window.show_page("memory")
    started = Live(context, qtbot)
    started.wait_for(lambda: context.placement.answer is not None and started.live.residency is not None)
    started.wait_for(lambda: context.placement.answer.wish.overhead is not None)
    started.wait_for(lambda: started.page.traces.isVisible() and not started.page.is_under_way)
    yield started
    context.close()
    context.window.close()
    context.window.deleteLater()


def test_the_page_shows_what_runs(live):
    page, residency = live.page, live.live.residency
    assert page.simulated.isVisible() and page.simulated.text() == "emulated"
    assert not page.machine.currentData()
    assert "emulated device" in page.subtitle.words.text()
    answer = live.context.placement.answer
    assert answer.outlook.marks.card > residency.used_bytes
    assert answer.outlook.marks.largest_safe >= residency.budget_bytes == BUDGET * MiB == answer.preview.budget
    live.wait_for(
        lambda: live.context.window.status.cells["vram"].text().endswith(f"/ {BUDGET} MiB")
    )  # by the next sample
    live.wait_for(lambda: live.checked > 2)


def test_letting_go_of_the_slider_moves_the_model(live):
    page, marks = live.page, live.context.placement.answer.outlook.marks
    for budget in (marks.minimum, marks.largest_safe, marks.largest_safe // 2):
        before = len(live.outcomes)
        page.budget.choose(budget)
        live.wait_for(lambda before=before: len(live.outcomes) > before)
        outcome = live.outcomes[-1]
        assert isinstance(outcome, PlacementChanged)
        assert outcome.residency.used_bytes <= outcome.residency.budget_bytes == budget // MiB * MiB
        assert live.context.settings["gpu_budget"] == budget // MiB
        assert page.budget.slider._committed == budget // MiB * MiB
        assert not page.strip.isVisible()
    used = [outcome.residency.used_bytes for outcome in live.outcomes]
    assert used[0] < used[2] < used[1]


def test_sliding_during_an_answer_changes_no_token(live):
    live.answer("undisturbed")
    live.wait_for(lambda: "undisturbed" in live.ends)
    marks, random = live.context.placement.answer.outlook.marks, Random(7)
    live.answer("disturbed")
    slides = 0
    while "disturbed" not in live.ends:
        live.page.budget.choose(random.randint(0, marks.largest_safe))
        slides += 1
        live.qtbot.wait(30)
    live.wait_for(lambda: live.live.progress is None)
    assert slides >= 2 and live.outcomes and live.checked
    assert live.texts["disturbed"] == live.texts["undisturbed"] != ""
    assert live.samples and not live.over_budget


def test_the_timeline_shows_what_really_ran(live):
    page, marks = live.page, live.context.placement.answer.outlook.marks
    page.budget.choose(marks.largest_safe // 2)
    live.wait_for(lambda: bool(live.outcomes))
    page.timeline.unfold.setChecked(True)
    live.wait_for(lambda: page.timeline.simulation is not None)
    assert not page.timeline.is_seen and page.timeline.note.text() == "simulated"
    live.answer("watched", tokens=200)
    live.wait_for(lambda: page.timeline.is_seen)
    assert page.timeline.note.text() == "emulated"
    timeline = page.timeline.timeline
    assert timeline is not page.timeline.simulation.decode
    assert {task.lane.value for task in timeline.tasks} == {"CPU", "GPU", "link"}
    assert min(task.start for task in timeline.tasks) == 0
    page.timeline.kinds["prefill"].click()
    live.wait_for(lambda: "watched" in live.ends)
    page.budget.slider.setValue(page.budget.slider.maximum())  # what would be is simulated
    live.wait_for(lambda: page.timeline.note.text() == "simulated")


@pytest.mark.timeout(2400)
@pytest.mark.parametrize("seconds", [4])
def test_soak_sliding_at_random_while_chatting(live, soak, seconds):
    """Short here; half an hour with --soak: no lost token, no growth, budget and map right at every sample."""
    marks, random = live.context.placement.answer.outlook.marks, Random(11)
    process, length = psutil.Process(), 1800 if soak else seconds
    turns = slides = changes = 0
    said: set[str] = set()
    held: list[int] = []
    end = time.monotonic() + length
    while turns < 3 or time.monotonic() < end:
        key = f"turn {turns}"
        live.answer(key, tokens=24)
        while key not in live.ends:
            live.page.budget.choose(random.randint(0, marks.largest_safe))
            slides += 1
            if slides % 16 == 0:
                live.live.set_ram(random.choice((None, 300 * MiB, 4096 * MiB)))  # the second is refused
            live.qtbot.wait(25)
        turns, changes = turns + 1, changes + len(live.outcomes)
        assert live.ends.pop(key) is FinishReason.LENGTH
        said.add(live.texts.pop(key))
        live.outcomes.clear()  # what the test keeps would be growth
        held.append(process.memory_info().rss)
    live.wait_for(lambda: live.live.progress is None)
    # What is resident goes up and down with the budget: medians of many answers tell whether it grows.
    tenth = len(held) // 10
    early, late = (median(part) for part in (held[tenth : len(held) // 2], held[len(held) // 2 :]))
    print(
        f"{turns} answers, {slides} slides, {changes} changes of placement, {live.samples} samples, "
        f"{live.checked} maps; "
        f"memory {early / MiB:.1f} MiB in the first half of the time, {late / MiB:.1f} MiB in the second (medians)"
    )
    assert changes and live.checked
    assert len(said) == 1 and not live.over_budget
    assert late - early < (16 if soak else 64) * MiB
