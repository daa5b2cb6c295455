"""A walk over the real windows: every control of every page and dialog has a name, and Tab comes by it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDialog,
    QLineEdit,
    QMenu,
    QMessageBox,
    QPlainTextEdit,
    QTextEdit,
    QWidget,
)

from app.chat.answer_details import AnswerDetails
from app.chat.attachments import Attachment
from app.chat.trash_dialog import TrashDialog
from app.command_palette import CommandPalette
from app.shortcuts_dialog import ShortcutsDialog
from app.store.records import Status
from engine.placement.hardware.catalogue import machine
from tests.support.shapes import published_shape

PAGES = ("chat", "preferences", "library", "memory", "doctor", "logs", "gpu", "welcome")
GiB = 1 << 30
CONTROLS = (QAbstractButton, QLineEdit, QTextEdit, QPlainTextEdit, QComboBox, QAbstractSpinBox)


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
    app.page.attachments.add(Attachment("notes.md", "# Notes"))
    app.page._act("edit", app.session.path()[0])
    return app


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


def takes_tab(widget: QWidget) -> bool:
    return widget.isEnabled() and bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)


def parts(window: QWidget) -> list[QWidget]:
    return [
        widget
        for widget in window.findChildren(QWidget)
        if widget.window() is window and widget.isVisible() and not is_part(widget)
    ]


def unnamed(window: QWidget) -> list[str]:
    return [
        f"{type(widget).__name__} {widget.objectName()} in {type(widget.parent()).__name__}"
        for widget in parts(window)
        if (isinstance(widget, CONTROLS) or takes_tab(widget)) and not name_of(widget)
    ]


def missed(window: QWidget, qtbot) -> list[str]:
    """Controls that Tab does not come by."""
    widgets = parts(window)
    wanted = {
        widget
        for widget in widgets
        if widget.isEnabled()
        and (isinstance(widget, CONTROLS) or takes_tab(widget))
        and not is_reached_by_arrows(widget)
    }
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    seen: set[QWidget] = set()
    for _ in range(2 * len(widgets)):
        window.focusNextChild()
        focused = QApplication.focusWidget()
        while focused is not None:  # a spin box hands the focus to its line
            seen.add(focused)
            focused = focused.parentWidget()
    return [f"{type(widget).__name__} {name_of(widget)}" for widget in wanted - seen]


@pytest.mark.parametrize("page", PAGES)
def test_pages(chat, page, qtbot):
    window = chat.window
    window.show_page(page)
    if page == "memory":
        qtbot.waitUntil(lambda: chat.context.placement.answer is not None)
    if page == "doctor":
        qtbot.waitUntil(lambda: bool(window.page("doctor").rows), timeout=30_000)
    if page == "welcome":
        qtbot.waitUntil(lambda: bool(window.page("welcome").models.count()), timeout=30_000)
    assert unnamed(window) == []
    assert missed(window, qtbot) == []


@pytest.mark.parametrize("tab", ["models", "discover", "downloads"])
def test_the_librarys_tabs(chat, tab, qtbot):
    chat.window.show_page("library")
    chat.window.page("library").show_tab(tab)
    assert unnamed(chat.window) == []
    assert missed(chat.window, qtbot) == []


def details(chat) -> QDialog:
    path = chat.session.path()
    return AnswerDetails(path[-1], path, chat.context.theme, chat.window)


def shortcuts(chat) -> QDialog:
    return ShortcutsDialog(chat.window.commands, chat.window)


def trash(chat) -> QDialog:
    rows = chat.context.conversations.rows()
    dialog = TrashDialog(rows, chat.context.conversations, chat.window)
    dialog.list.setCurrentRow(0)
    return dialog


def palette(chat) -> QDialog:
    chat.window.open_palette()
    return chat.window.findChild(CommandPalette)


def link(chat) -> QDialog:
    chat.page.transcript.link_activated.emit("https://example.org")
    return chat.page.findChild(QMessageBox)


@pytest.mark.parametrize("make", [details, shortcuts, trash, palette, link])
def test_dialogs(chat, make: Callable, qtbot):
    dialog = make(chat)
    dialog.show()
    qtbot.waitExposed(dialog)
    assert dialog.windowTitle() or dialog.accessibleName()
    assert unnamed(dialog) == []
    assert missed(dialog, qtbot) == []
    dialog.close()


def test_screen_readers_hear_the_messages(chat):
    footers = chat.page.transcript._overlay._footers
    question, answer = chat.session.path()
    assert footers[question.id].accessibleName() == "Your message"
    assert footers[question.id].accessibleDescription() == "Question"
    assert "An answer" in footers[answer.id].accessibleDescription()


def test_the_menu_key_opens_the_menu_of_a_conversation(chat, qtbot):
    conversations = chat.window.sidebar.list
    conversations.setFocus()
    place = conversations.visualRect(conversations.currentIndex()).center()
    reason = QContextMenuEvent.Reason.Keyboard
    QApplication.sendEvent(
        conversations.viewport(), QContextMenuEvent(reason, place, conversations.viewport().mapToGlobal(place))
    )
    menu = next(menu for menu in conversations.findChildren(QMenu) if menu.isVisible())
    assert "Rename" in [action.text() for action in menu.actions()]
    menu.close()
