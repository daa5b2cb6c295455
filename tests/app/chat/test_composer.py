"""Keys of the composer."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QMimeData, Qt
from PySide6.QtGui import QInputMethodEvent, QKeyEvent
from PySide6.QtWidgets import QApplication

from app.chat.composer import MAX_LINES, MAX_PASTE, Composer
from app.settings.values import Settings
from app.theme.theme import Theme


@pytest.fixture
def composer(qapp: QApplication, tmp_path, qtbot) -> Composer:
    widget = Composer(Theme(qapp, Settings(tmp_path / "settings.json")))
    qtbot.addWidget(widget)
    widget.resize(500, 100)
    widget.show()
    widget.sent = []
    widget.send_requested.connect(widget.sent.append)
    return widget


def test_enter_sends_and_shift_enter_breaks(composer, qtbot):
    qtbot.keyClicks(composer.edit, "one")
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClicks(composer.edit, "two")
    assert composer.sent == []
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert composer.sent == ["one\ntwo"]


def test_the_keypads_enter_sends_too(composer, qtbot):
    qtbot.keyClicks(composer.edit, "x")
    qtbot.keyClick(composer.edit, Qt.Key.Key_Enter, Qt.KeyboardModifier.KeypadModifier)
    assert composer.sent == ["x"]


def test_enter_of_an_input_method_does_not_send(composer, qtbot):
    qtbot.keyClicks(composer.edit, "a")
    QApplication.sendEvent(composer.edit, QInputMethodEvent("ni", []))
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert composer.sent == []
    commit = QInputMethodEvent("", [])
    commit.setCommitString("你")
    QApplication.sendEvent(composer.edit, commit)
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert composer.sent == ["a你"]


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_nothing_is_not_sent(composer, qtbot, text):
    composer.set_text(text)
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert composer.sent == []
    assert not composer.button.isEnabled()


def test_while_an_answer_is_written_the_button_stops_and_enter_waits(composer, qtbot):
    stops = []
    composer.stop_requested.connect(lambda: stops.append(1))
    composer.set_text("next")
    composer.set_busy(True)
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert composer.sent == []
    qtbot.mouseClick(composer.button, Qt.MouseButton.LeftButton)
    assert stops == [1]
    assert composer.button.accessibleName() == "Stop"


def test_it_grows_with_its_lines_up_to_a_limit(composer):
    heights = []
    for lines in (1, 4, MAX_LINES, 60):
        composer.set_text("\n".join("x" * lines))
        heights.append(composer.edit.height())
    assert heights[0] < heights[1] < heights[2]
    assert heights[3] <= heights[2] + 4


def test_rich_text_is_pasted_as_plain_text(composer):
    data = QMimeData()
    data.setHtml("<b>bold</b> <img src='file:///etc/passwd'>")
    data.setText("bold")
    composer.edit.insertFromMimeData(data)
    assert composer.text == "bold"
    assert composer.edit.textCursor().charFormat().fontWeight() == 400
    assert "<img" not in composer.edit.toHtml()


def test_the_second_click_on_send_is_no_stop(composer, qtbot, monkeypatch):
    stops = []
    composer.stop_requested.connect(lambda: stops.append(1))
    composer.send_requested.connect(lambda _text: composer.set_busy(True))
    composer.set_text("x")
    qtbot.mouseClick(composer.button, Qt.MouseButton.LeftButton)
    qtbot.mouseClick(composer.button, Qt.MouseButton.LeftButton)
    assert (composer.sent, stops) == (["x"], [])
    monkeypatch.setattr(QApplication, "doubleClickInterval", lambda: 0)
    qtbot.wait(5)
    qtbot.mouseClick(composer.button, Qt.MouseButton.LeftButton)
    assert stops == [1]


def test_a_long_paste_is_handed_on_instead_of_laid_out(composer):
    long = []
    composer.long_pasted.connect(long.append)
    for text in ("x" * MAX_PASTE, "y" * (MAX_PASTE + 1)):
        data = QMimeData()
        data.setText(text)
        composer.edit.insertFromMimeData(data)
    assert composer.text == "x" * MAX_PASTE
    assert long == ["y" * (MAX_PASTE + 1)]


def test_no_key_of_an_input_method_is_one_of_ours(composer, qtbot):
    """Esc, Enter and Up of a composition neither send, stop, leave an edit, nor recall a message."""
    told = []
    for signal in (composer.stop_requested, composer.edit_cancelled, composer.last_requested):
        signal.connect(lambda *_: told.append(1))
    composer.set_busy(True)
    composer.begin_edit("")
    QApplication.sendEvent(composer.edit, QInputMethodEvent("ni", []))
    for key in (Qt.Key.Key_Escape, Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Up):
        qtbot.keyClick(composer.edit, key)
        shortcut = QKeyEvent(QEvent.Type.ShortcutOverride, key, Qt.KeyboardModifier.NoModifier)
        shortcut.ignore()
        QApplication.sendEvent(composer.edit, shortcut)
        assert shortcut.isAccepted()  # the window's shortcuts do not get it either
    assert (told, composer.sent) == ([], [])


def test_what_is_composed_can_be_taken_back_and_written_into_an_edit(composer, qtbot):
    composer.begin_edit("早上")
    QApplication.sendEvent(composer.edit, QInputMethodEvent("hao", []))
    QApplication.sendEvent(composer.edit, QInputMethodEvent("", []))
    assert composer.text == "早上"
    QApplication.sendEvent(composer.edit, QInputMethodEvent("hao", []))
    commit = QInputMethodEvent("", [])
    commit.setCommitString("好")
    QApplication.sendEvent(composer.edit, commit)
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert composer.sent == ["早上好"]
