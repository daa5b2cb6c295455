"""Everything is reached with the keyboard, and every control has a name."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QAbstractButton, QAbstractSpinBox, QComboBox, QLineEdit, QTextEdit, QWidget

from app.command_palette import CommandPalette, Entry, matching, score
from app.shortcuts_dialog import ShortcutsDialog
from app.store.records import Status


@pytest.fixture
def chat(app, qtbot):
    app.engine.answer = "<think>hm</think>\n\nAn answer\n\n```py\nx = 1\n```"
    app.session.send("Question")
    qtbot.waitUntil(lambda: app.session.path()[-1].status is Status.COMPLETE)
    app.page.parameters_button.setChecked(True)
    return app


CONTROLS = (QAbstractButton, QLineEdit, QTextEdit, QComboBox, QAbstractSpinBox)


def name_of(widget: QWidget) -> str:
    text = widget.text() if isinstance(widget, QAbstractButton) else ""
    return widget.accessibleName() or text


def is_part(widget: QWidget) -> bool:
    """A part of another control: the line of a spin box, Qt's own buttons."""
    holders = QAbstractSpinBox | QComboBox | QLineEdit
    return isinstance(widget.parent(), holders) or widget.objectName().startswith("qt_")


def is_reached_by_arrows(widget: QWidget) -> bool:
    """One of several exclusive buttons: Tab reaches the chosen one, the arrows the others."""
    return isinstance(widget, QAbstractButton) and widget.group() is not None and not widget.isChecked()


@pytest.mark.parametrize("page", ["chat", "preferences", "library"])
def test_every_control_has_a_name_for_screen_readers(chat, page):
    chat.window.show_page(page)
    unnamed = [
        f"{type(widget).__name__} {widget.objectName()} in {type(widget.parent()).__name__}"
        for widget in chat.window.findChildren(QWidget)
        if isinstance(widget, CONTROLS) and widget.isVisible() and not is_part(widget) and not name_of(widget)
    ]
    assert unnamed == []


@pytest.mark.parametrize("page", ["chat", "preferences", "library"])
def test_every_control_is_reached_with_tab(chat, page):
    chat.window.show_page(page)
    unreachable = [
        name_of(widget)
        for widget in chat.window.findChildren(QWidget)
        if isinstance(widget, CONTROLS)
        and widget.isVisible()
        and widget.isEnabled()
        and not is_part(widget)
        and not is_reached_by_arrows(widget)
        and not widget.focusPolicy() & Qt.FocusPolicy.TabFocus
    ]
    assert unreachable == []


def test_no_key_means_two_things(app):
    keys = [QKeySequence(command.keys).toString() for command in app.window.commands if command.keys]
    assert len(keys) == len(set(keys))
    assert all(keys)


def test_f1_lists_every_key(app, qtbot):
    dialog = ShortcutsDialog(app.window.commands, app.window)
    qtbot.addWidget(dialog)
    words = {label.text() for label in dialog.findChildren(QWidget) if hasattr(label, "text")}
    for command in app.window.commands:
        if command.keys:
            assert {command.title, command.keys_text()} <= words


def test_the_palette_finds_and_runs(app, qtbot):
    ran = []
    entries = [Entry("New conversation", "", lambda: ran.append("new")), Entry("Settings", "", lambda: ran.append("s"))]
    palette = CommandPalette(entries, app.window)
    qtbot.addWidget(palette)
    palette.show()
    qtbot.keyClicks(palette.edit, "stg")
    assert palette.list.count() == 1
    qtbot.keyClick(palette.edit, Qt.Key.Key_Return)
    assert ran == ["s"]


def test_the_palette_moves_with_the_arrows(app, qtbot):
    ran = []
    entries = [Entry(f"entry {i}", "", lambda i=i: ran.append(i)) for i in range(3)]
    palette = CommandPalette(entries, app.window)
    qtbot.addWidget(palette)
    palette.show()
    qtbot.keyClick(palette.edit, Qt.Key.Key_Down)
    qtbot.keyClick(palette.edit, Qt.Key.Key_Down)
    qtbot.keyClick(palette.edit, Qt.Key.Key_Up)
    qtbot.keyClick(palette.edit, Qt.Key.Key_Return)
    assert ran == [1]


def test_the_palette_knows_conversations_and_models(chat, qtbot):
    chat.window.open_palette()
    palette = chat.window.findChild(CommandPalette)
    titles = [palette.list.item(row).text() for row in range(palette.list.count())]
    assert any(title.startswith("Question") for title in titles)
    assert any(title.startswith("Scripted-1B Q4_K_M") for title in titles)
    palette.close()


def test_scores():
    assert score("abc", "xabc") == 1
    assert score("ac", "abc") > 1000
    assert score("zz", "abc") is None
    entries = [Entry(title, "", lambda: None) for title in ("Settings", "Set a title", "Unset")]
    assert [entry.title for entry in matching(entries, "set")] == ["Settings", "Set a title", "Unset"]


def test_up_in_an_empty_box_edits_the_last_message(chat, qtbot):
    qtbot.keyClick(chat.page.composer.edit, Qt.Key.Key_Up)
    assert chat.page.composer.text == "Question"
    qtbot.keyClick(chat.page.composer.edit, Qt.Key.Key_Escape)
    assert chat.page.composer.text == ""


def test_answer_again_by_key(chat, qtbot):
    chat.engine.answer = "Another"
    chat.session.regenerate_last()
    qtbot.waitUntil(lambda: chat.session.path()[-1].content == "Another")
