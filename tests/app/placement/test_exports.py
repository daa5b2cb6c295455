"""Timeline, files of what is shown, and the small slider beside the conversation."""

from __future__ import annotations

import csv
import json
import threading
from pathlib import Path

import pytest
from PySide6.QtGui import QImage

from app.placement.map_lines import MapText
from app.placement.picture import Picture

GiB = 1 << 30


def test_the_timeline_is_the_simulated_step_of_the_shown_budget(memory, qtbot):
    card = memory.page.timeline
    assert card.simulation is None and not card.view.isVisible()
    card.unfold.click()
    qtbot.waitUntil(lambda: card.simulation is not None)
    first = card.view._seconds
    assert card.note.text() == "simulated" and "GPU" in card.facts.text()
    memory.page.budget.slider.setValue(2 * 1024)
    qtbot.waitUntil(lambda: card.view._seconds > first)
    box = card.view._box(card.view._tasks[5])
    assert card.view._tasks[5].name in card.view.words_at(box.center())
    decode = card.view._seconds
    card.kinds["prefill"].click()
    assert card.view._seconds > decode


def test_everything_can_be_taken_along_as_files(memory, qtbot, tmp_path):
    page = memory.page

    def export(name: str, what: str) -> None:
        with qtbot.waitSignal(page.export.written):
            page.export.export_to(tmp_path / name, what)

    export("page.png", "page")
    picture = QImage(str(tmp_path / "page.png"))
    assert picture.width() >= 600 and picture.height() > page.map.height()
    export("table.csv", "table")
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 48 * 128 + 48 * 9 + 3
    slots = memory.answer.preview.plan.slots
    assert sum(row["Place"] == "GPU" and "expert" in row["Name"] for row in rows) == sum(slots)
    export("trace.json", "timeline")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names == {"CPU", "GPU", "link"}
    assert all(event["dur"] >= 0 for event in events if event["ph"] == "X") and len(events) > 100
    export("timeline.csv", "timeline")
    tasks = list(csv.DictReader((tmp_path / "timeline.csv").read_text(encoding="utf-8").splitlines()))
    assert {task["lane"] for task in tasks} == names and {task["source"] for task in tasks} == {"simulated"}
    assert len(tasks) == sum(event["ph"] == "X" for event in events)
    export("timeline.png", "timeline")
    timeline = QImage(str(tmp_path / "timeline.png"))
    assert timeline.height() == page.timeline.height() >= page.timeline.view.height()


@pytest.mark.parametrize("what", [("page.png", "page"), ("table.csv", "table"), ("trace.json", "timeline")])
def test_what_cannot_be_written_says_so_and_leaves_nothing(memory, qtbot, tmp_path, what, monkeypatch):
    name, part = what
    (tmp_path / name).write_text("before")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    page = memory.page
    with qtbot.waitSignal(page.export.failed):
        page.export.export_to(tmp_path / name, part)
    assert [path.name for path in tmp_path.glob(f"{name}*")] == [name]
    assert (tmp_path / name).read_text() == "before"
    assert page.notice.isVisible() and "No space left on device" in page.notice.cause.text()
    monkeypatch.undo()
    with qtbot.waitSignal(page.export.written):
        page.export.export_to(tmp_path / name, part)
    assert not page.notice.isVisible() and (tmp_path / name).stat().st_size > 100


def test_the_small_slider_and_the_large_one_are_one(memory, qtbot):
    window = memory.app.window
    window.show_page("chat")
    window.chat_page.parameters_button.setChecked(True)
    from app.placement.small_budget import SmallBudget

    small = window.findChild(SmallBudget)
    assert small.slider.isVisible() and "simulated" in small.words.text()
    assert small.slider.value() == memory.page.budget.slider.value()
    small.slider.setValue(3 * 1024)
    qtbot.waitUntil(lambda: memory.answer.preview.budget == 3 * GiB)
    assert memory.page.budget.slider.value() == 3 * 1024
    assert "3.0 GiB" in small.words.text()
    small.details.click()
    assert memory.page.isVisible()


def test_the_tables_file_is_made_beside_the_window(open_memory, qtbot, tmp_path, monkeypatch):
    page = open_memory().page
    threads = set()
    words = MapText.words

    def noted(*args):
        threads.add(threading.current_thread())
        return words(*args)

    monkeypatch.setattr(MapText, "words", noted)
    with qtbot.waitSignal(page.export.written):
        page.export.export_to(tmp_path / "table.csv", "table")
    assert threads and threading.main_thread() not in threads


def test_a_picture_is_painted_in_bands_and_the_same_as_at_once(memory, qtbot):
    found: list[QImage] = []
    card = memory.page.budget  # stands still
    Picture(card, found.append)
    assert not found
    qtbot.waitUntil(lambda: bool(found))
    assert found[0].size() == card.size() and card.height() > 200
    at_once = card.grab().toImage().convertToFormat(found[0].format())
    assert found[0] == at_once
