"""A page whose changes are spread over turns of the event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QLabel, QMainWindow, QVBoxLayout

from app.staged_page import StagedPage

LINES = 40


class Page(StagedPage):
    def __init__(self, parent: QMainWindow) -> None:
        super().__init__(parent)
        self.widths: list[int] = []
        layout = QVBoxLayout(self.body)
        self.labels = [QLabel(f"line {number}", self.body) for number in range(LINES)]
        for label in self.labels:
            layout.addWidget(label)

    def parts(self) -> list[QLabel]:
        return self.labels[:3]

    def fit(self, width: int) -> None:
        self.widths.append(width)


class Turns(QObject):
    """Which kinds of events came to the body and the first label, turn by turn."""

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self.turns: list[set[str]] = []
        for watched in (page.body, page.labels[0]):
            watched.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if self.turns:
            self.turns[-1].add(event.type().name)
        return False

    def watch(self, until: Callable[[], bool], most: int = 1000) -> list[set[str]]:
        self.turns = []
        while not until():
            self.turns.append(set())
            QApplication.processEvents()
            assert len(self.turns) < most
        return self.turns

    def painted(self) -> bool:
        return any("Paint" in turn for turn in self.turns)


@pytest.fixture
def page(qtbot) -> Iterator[Page]:
    window = QMainWindow()
    qtbot.addWidget(window)
    page = Page(window)
    window.setCentralWidget(page)
    window.resize(500, 400)
    window.show()
    qtbot.waitUntil(lambda: page._is_seen)
    qtbot.wait(100)
    yield page


def test_no_turn_both_lays_out_and_paints(page):
    turns = Turns(page)
    page.labels[0].setText("two\nlines")
    seen = turns.watch(turns.painted)
    assert any("LayoutRequest" in turn for turn in seen)
    assert not any({"LayoutRequest", "Paint"} <= turn for turn in seen)


def test_layouts_without_end_do_not_keep_the_picture_for_ever(page, monkeypatch):
    monkeypatch.setattr("app.theme.held_picture.PATIENCE", 0.0)
    turns = Turns(page)
    count = iter(range(1_000_000))

    def laid_out_again() -> bool:
        page.labels[1].setText("\n" * (next(count) % 3))
        return turns.painted()

    turns.watch(laid_out_again)


def test_turns_are_taken_one_by_one_and_seen_together(page):
    turns, taken = Turns(page), []

    def steps() -> Iterator[None]:
        for label in page.labels[:4]:
            label.setText(f"{label.text()}, changed")
            taken.append(len(turns.turns))
            yield

    page.take_turns(steps())
    seen = turns.watch(turns.painted)
    assert len(taken) == len(set(taken)) == 4
    assert not page.is_under_way
    assert not any("Paint" in turn for turn in seen[: taken[-1]])


def test_other_turns_take_the_place_of_those_under_way(page, qtbot):
    taken = []

    def steps(name: str) -> Iterator[None]:
        for number in range(3):
            taken.append((name, number))
            yield

    page.take_turns(steps("first"))
    Turns(page).watch(lambda: len(taken) == 1)
    page.take_turns(steps("second"))
    qtbot.waitUntil(lambda: not page.is_under_way)
    assert taken == [("first", 0), ("second", 0), ("second", 1), ("second", 2)]


def test_a_turn_that_fails_ends_the_turns_and_lets_the_window_go(page, qtbot):
    def steps() -> Iterator[None]:
        page.labels[0].setText("changed")
        yield
        raise ValueError("no such card")

    turns = Turns(page)
    with qtbot.captureExceptions() as failures:
        page.take_turns(steps())
        turns.watch(turns.painted)
    assert [str(value) for _, value, _ in failures] == ["no such card"]
    assert not page.is_under_way


def test_a_window_of_another_size_is_shown_before_the_body_fits(page, qtbot):
    before, room = page.body.width(), page.verticalScrollBar().width()
    page.widths.clear()
    page.window().resize(400, 400)
    assert (page.body.width(), page.widths) == (before, [])
    page.window().resize(420, 400)
    qtbot.waitUntil(lambda: page.body.width() == page.viewport().width() == 420 - room)
    assert page.widths == [420 - room]
    assert page.horizontalScrollBar().maximum() == 0


def test_a_body_that_is_wider_than_its_room_is_fitted_once_and_scrolls(page, qtbot):
    page.labels[0].setMinimumWidth(450)
    page.widths.clear()
    page.window().resize(400, 400)
    bar = page.horizontalScrollBar()
    qtbot.waitUntil(lambda: bar.isVisible() and bar.maximum() > 0 and not page._is_fitting)
    qtbot.wait(100)
    assert page.widths == [page.viewport().width()]
    assert bar.isVisible()


def test_the_room_of_the_scroll_bar_is_kept(page, qtbot):
    width, bar = page.viewport().width(), page.verticalScrollBar()
    assert bar.maximum() > 0
    for label in page.labels[1:]:
        label.hide()
    qtbot.waitUntil(lambda: bar.maximum() == 0)
    assert page.viewport().width() == width
    pictures = [bar.grab().toImage()]
    for label in page.labels[1:]:
        label.show()
    qtbot.waitUntil(lambda: bar.maximum() > 0)
    pictures.append(bar.grab().toImage())
    assert pictures[0] != pictures[1]  # with a handle only where there is something to scroll
