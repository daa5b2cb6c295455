"""Everything is reached with the keyboard, and every control has a name."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QTextEdit,
    QWidget,
)

from app.command_palette import CommandPalette, Entry, matching, score
from app.shortcuts_dialog import ShortcutsDialog
from app.store.records import Status
from engine.placement.hardware.catalogue import machine
from tests.support.shapes import published_shape

PAGES = ("chat", "preferences", "library", "memory")
GiB = 1 << 30


@pytest.fixture
def chat(app, qtbot):
    app.engine.answer = "<think>hm</think>\n\nAn answer\n\n```py\nx = 1\n```\n\n<tool_call>{}</tool_call>"
    placement = app.context.placement
    placement.read_shape = lambda _path: published_shape("qwen3-30b-a3b-q4_k_m")
    placement.read_machine = lambda: (machine("Ryzen 7 7700X", None, 64 * GiB), True)
    app.context.settings.set("shown_machine", "RTX 4070")
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


def shown(app, page: str, qtbot) -> list[QWidget]:
    """The page's widgets, and the window's around it."""
    app.window.show_page(page)
    if page == "memory":
        qtbot.waitUntil(lambda: app.context.placement.answer is not None)
    return [widget for widget in app.window.findChildren(QWidget) if widget.isVisible() and not is_part(widget)]


@pytest.mark.parametrize("page", PAGES)
def test_every_control_has_a_name_for_screen_readers(chat, page, qtbot):
    unnamed = [
        f"{type(widget).__name__} {widget.objectName()} in {type(widget.parent()).__name__}"
        for widget in shown(chat, page, qtbot)
        if (isinstance(widget, CONTROLS) or takes_tab(widget)) and not name_of(widget)
    ]
    assert unnamed == []


def takes_tab(widget: QWidget) -> bool:
    return widget.isEnabled() and bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)


@pytest.mark.parametrize("page", PAGES)
def test_tab_comes_by_every_control(chat, page, qtbot):
    widgets = shown(chat, page, qtbot)
    wanted = {
        widget
        for widget in widgets
        if isinstance(widget, CONTROLS) and widget.isEnabled() and not is_reached_by_arrows(widget)
    }
    chat.window.activateWindow()
    qtbot.waitUntil(lambda: chat.window.isActiveWindow())
    seen: set[QWidget] = set()
    for _ in range(2 * len(widgets)):
        chat.window.focusNextChild()
        focused = QApplication.focusWidget()
        while focused is not None:  # a spin box hands the focus to its line
            seen.add(focused)
            focused = focused.parentWidget()
    assert [f"{type(widget).__name__} {name_of(widget)}" for widget in wanted - seen] == []


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
