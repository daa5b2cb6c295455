"""Pictures that widgets keep of themselves, and windows that keep theirs while the next one is made."""

from __future__ import annotations

import weakref

import pytest
import shiboken6
from PySide6.QtCore import QEvent, QObject, QSize
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QApplication, QComboBox, QWidget

from app.settings.values import Settings
from app.theme.held_picture import HeldPicture
from app.theme.kept_picture import KeptPicture
from app.theme.theme import Theme
from app.theme.tokens import THEMES


class Mark(QWidget):
    """A line of the text's colour across a card, and how often it was drawn."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scale, self.drawn, self.painted, self.token = 1.0, 0, 0, "text"
        self.theme, self.picture = theme, KeptPicture(self, theme, self.draw)

    def devicePixelRatioF(self) -> float:
        return self.scale

    def draw(self, painter: QPainter) -> None:
        self.drawn += 1
        painter.fillRect(0, 0, self.width(), 3, self.theme.color(self.token))

    def paintEvent(self, event) -> None:
        self.painted += 1
        self.picture.paint()

    def colors(self) -> tuple[str, str]:
        """Of the line, and of what is below it."""
        image = self.grab().toImage()
        return image.pixelColor(image.width() - 1, 0).name(), image.pixelColor(0, image.height() - 1).name()


class Painted(QObject):
    def __init__(self, widget: QWidget) -> None:
        super().__init__()
        self.count = 0
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        self.count += event.type() == QEvent.Type.Paint
        return False


@pytest.fixture
def theme(qapp: QApplication, tmp_path) -> Theme:
    theme = Theme(qapp, Settings(tmp_path / "settings.json"))
    theme.apply()
    return theme


@pytest.fixture
def mark(theme: Theme, qtbot) -> Mark:
    mark = Mark(theme)
    qtbot.addWidget(mark)
    mark.resize(40, 20)
    return mark


def test_a_kept_picture_is_drawn_once(mark):
    seen = [mark.colors() for _ in range(3)]
    assert mark.drawn == 1
    assert set(seen) == {(THEMES["light"].text, THEMES["light"].card)}


def test_a_kept_picture_follows_size_theme_text_size_and_content(mark, theme):
    mark.colors()
    mark.resize(60, 30)
    assert mark.grab().size() == QSize(60, 30) and mark.drawn == 2
    assert mark.colors() == (THEMES["light"].text, THEMES["light"].card)
    theme._settings.set("theme", "dark")
    assert mark.colors() == (THEMES["dark"].text, THEMES["dark"].card) and mark.drawn == 3
    mark.token = "accent"
    mark.picture.forget()
    assert mark.colors() == (THEMES["dark"].accent, THEMES["dark"].card) and mark.drawn == 4
    theme._settings.set("font_size", theme.type.body + 1)
    mark.colors()
    assert mark.drawn == 5


def test_a_kept_picture_is_as_sharp_as_the_screen(mark):
    mark.colors()
    mark.scale = 2.0
    mark.colors()
    assert mark.drawn == 2
    assert mark.picture._kept[1].size() == QSize(80, 40)
    assert mark.picture._kept[1].devicePixelRatio() == 2


def test_a_held_window_draws_what_it_keeps_and_then_paints_in_another_turn(qapp, qtbot, theme):
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(200, 100)
    marks = [Mark(theme, window) for _ in range(4)]
    for number, mark in enumerate(marks):
        mark.setGeometry(0, 25 * number, 200, 20)
    window.show()
    qtbot.waitUntil(lambda: all(mark.drawn for mark in marks))
    qtbot.wait(50)
    held = HeldPicture(window)
    held.hold()
    for mark in marks:
        mark.drawn = mark.painted = 0
        mark.picture.forget()
    for _ in range(10):
        qapp.processEvents()
    assert not any(mark.painted for mark in marks)
    held.show(marks[1:])
    for _ in range(100):
        if all(mark.drawn for mark in marks[1:]):
            break
        assert marks[0].painted == 0
        qapp.processEvents()
    assert marks[0].painted == 0
    with qtbot.waitSignal(held.shown):
        pass
    assert marks[0].painted == 1
    assert [mark.drawn for mark in marks[1:]] == [1, 1, 1]


def test_a_window_that_goes_while_it_is_held_is_let_go(qapp):
    window = QWidget()
    window.show()
    held = HeldPicture(window)
    held.hold()
    window.update()
    held.show([window])
    shiboken6.delete(window)
    for _ in range(5):
        qapp.processEvents()
    assert not shiboken6.isValid(held)


def test_a_window_that_nobody_keeps_is_deleted_once(qapp):
    """Its picture being shown is not what keeps it, and what shows it outlives it."""
    owner = QObject()
    window = QWidget()
    window.show()
    held = HeldPicture(window, owner)
    held.hold()
    window.update()
    held.show([window])
    there = weakref.ref(window)
    del window
    for _ in range(5):
        qapp.processEvents()
    assert there() is None
    assert shiboken6.isValid(held)


def test_a_popup_that_is_open_while_the_theme_changes_is_painted_again(qapp, qtbot, theme):
    """Qt makes it and owns it: nothing in Python keeps it."""
    box = QComboBox()
    qtbot.addWidget(box)
    box.addItems(["one", "two"])
    box.show()
    box.showPopup()
    qtbot.waitUntil(lambda: box.view().isVisible())
    qtbot.wait(50)
    theme._settings.set("theme", "dark")
    qtbot.waitUntil(lambda: theme._restyling.is_done)
    qtbot.wait(50)
    seen = Painted(box.view().viewport())
    box.view().viewport().update()
    qtbot.waitUntil(lambda: seen.count > 0)
