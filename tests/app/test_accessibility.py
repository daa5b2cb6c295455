"""A walk over the real windows: every control has a name, and Tab comes by it; every dialog and menu has words, is
left with Escape, and gives the keyboard back. The library's own are walked in library/test_accessibility.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QContextMenuEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu, QWidget

from app.chat.attachments import Attachment
from app.start_error import failure_box
from app.store.records import Status
from engine.placement.hardware.catalogue import machine
from tests.app.library.test_accessibility import DIALOGS as LIBRARY_DIALOGS
from tests.app.library.test_accessibility import MENUS as LIBRARY_MENUS
from tests.support.accessibility import missed, opened_in_source, unnamed, walk_dialog, walk_lists, walk_menu
from tests.support.shapes import published_shape

PAGES = ("chat", "preferences", "library", "memory", "doctor", "logs", "gpu", "updates", "welcome")
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
    app.page.attachments.add(Attachment("notes.md", "# Notes"))
    app.page._act("edit", app.session.path()[0])
    return app


@pytest.mark.parametrize("page", PAGES)
def test_pages(chat, page, qtbot):
    window = chat.window
    window.show_page(page)
    if page == "memory":
        memory(chat, qtbot)
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


@pytest.mark.parametrize("page", ["chat", "preferences", "memory", "logs"])
def test_drop_down_lists(chat, page, qtbot):
    chat.window.show_page(page)
    if page == "memory":
        memory(chat, qtbot)
    assert walk_lists(chat.window, qtbot) == []


# --- dialogs and menus: what opens each, with the control that has the keyboard ---------------------------------


def shown(chat, page: str) -> QWidget:
    chat.window.show_page(page)
    return chat.window.page(page)


def conversation(chat) -> str:
    return chat.context.conversations.rows()[0].id


def act(action: str) -> Callable:
    return lambda chat: chat.window._actions.run(action, conversation(chat))


def details(chat) -> None:
    chat.page._act("details", chat.session.path()[-1])


def browse(name: str) -> Callable:
    return lambda chat: shown(chat, "preferences").rows[name]._browse()


def memory(chat, qtbot) -> QWidget:
    page = shown(chat, "memory")
    qtbot.waitUntil(lambda: page.traces.isVisible() and not page.is_under_way)
    return page


DIALOGS: dict[str, Callable] = {
    "chat/answer_details:AnswerDetails": details,
    "chat/chat_page:choose_attachments": lambda chat: chat.page.choose_attachments(),
    "chat/conversation_actions:_ask_folder": act("folder"),
    "chat/conversation_actions:_ask_import": lambda chat: chat.window._actions.run_for_all("import"),
    "chat/conversation_actions:_export": act("export_markdown"),
    "chat/conversation_actions:_export_all": lambda chat: chat.window._actions.run_for_all("export_all"),
    "chat/link_question:ask_to_open": lambda chat: chat.page.transcript.link_activated.emit("https://example.org"),
    "chat/model_picker:choose_file": lambda chat: chat.page.picker.choose_file(),
    "chat/parameters/parameters_panel:_ask_name": lambda chat: chat.page.parameters._ask_name(),
    "chat/trash_dialog:TrashDialog": lambda chat: chat.window._actions.run_for_all("trash"),
    "command_palette:CommandPalette": lambda chat: chat.window.open_palette(),
    "context:_ask_report": lambda chat: chat.context._ask_report(),
    "first_run/first_run_page:_ask_file": lambda chat: shown(chat, "welcome")._ask_file(),
    "placement/export_button:_ask": lambda chat: chat.window.page("memory").export._ask("page", "png"),
    "preferences/preferences_page:_ask_export": lambda chat: shown(chat, "preferences")._ask_export(),
    "preferences/preferences_page:_ask_import": lambda chat: shown(chat, "preferences")._ask_import(),
    "preferences/setting_row:_browse": browse("models_folder"),
    "shortcuts_dialog:ShortcutsDialog": lambda chat: chat.window.show_shortcuts(),
    "start_error:failure_box": lambda chat: failure_box("It cannot start.\n\nSomething is missing.").exec(),
}


@pytest.mark.parametrize("place", DIALOGS)
def test_dialogs(chat, place, qtbot):
    page = chat.page
    if place.startswith("placement"):
        page = memory(chat, qtbot)
    elif place.startswith(("preferences", "first_run")):
        page = shown(chat, "welcome" if place.startswith("first_run") else "preferences")
    page.setFocus()
    QTest.keyClick(page, Qt.Key.Key_Tab)
    assert walk_dialog(chat.window, qtbot, lambda: DIALOGS[place](chat)) == []


def pin_menu(chat, qtbot) -> Callable:
    view = memory(chat, qtbot).map.view
    view.setFocus()
    QTest.keyClick(view, Qt.Key.Key_Right)
    return lambda: QTest.keyClick(view, Qt.Key.Key_Return)


def export_menu(chat, qtbot) -> Callable:
    return pressed(memory(chat, qtbot).export)


def context_menu(widget: QWidget) -> Callable:
    """As the menu key asks for it."""
    widget.setFocus()
    place = widget.inputMethodQuery(Qt.InputMethodQuery.ImCursorRectangle).center()
    event = QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, place, widget.mapToGlobal(place))
    return lambda: QApplication.sendEvent(widget, event)


def pressed(button: QWidget) -> Callable:
    button.setFocus()
    return lambda: QTest.keyClick(button, Qt.Key.Key_Space)


def more_of(chat, number: int) -> Callable:
    return pressed(chat.page.transcript._overlay._footers[chat.session.path()[number].id].more)


MENUS: dict[str, Callable] = {
    "chat/conversation_list:build_menu": lambda chat, _: context_menu(chat.window.sidebar.list),
    "chat/model_picker:build_menu": lambda chat, _: pressed(chat.page.picker),
    "chat/parameters/parameters_panel:_open_menu": lambda chat, _: pressed(chat.page.parameters.more),
    "chat/transcript/footer:build_menu": lambda chat, _: more_of(chat, -1),
    "chat/transcript/footer:build_menu, of a question": lambda chat, _: more_of(chat, 0),
    "chat/transcript/selecting:menu_at": lambda chat, _: context_menu(chat.page.transcript),
    "placement/export_button:__init__": export_menu,
    "placement/pin_menu:pin_menu": pin_menu,
    "preferences/preferences_page:build_menu": lambda chat, _: pressed(shown(chat, "preferences").more),
    "sidebar:build_menu": lambda chat, _: pressed(chat.window.sidebar.menu_button),
}


@pytest.mark.parametrize("place", MENUS)
def test_menus(chat, place, qtbot):
    chat.window.activateWindow()
    qtbot.waitUntil(chat.window.isActiveWindow)
    open_it = MENUS[place](chat, qtbot)
    before = len(chat.window.findChildren(QMenu))
    assert walk_menu(chat.window, qtbot, open_it) == []
    qtbot.waitUntil(lambda: len(chat.window.findChildren(QMenu)) == before)  # it does not stay for good


def test_no_dialog_or_menu_is_left_out():
    walked = {place.partition(",")[0] for place in (*DIALOGS, *MENUS, *LIBRARY_DIALOGS, *LIBRARY_MENUS)}
    assert opened_in_source() == walked


def test_what_the_palette_found_is_told(chat, qtbot, monkeypatch):
    """The list never has the keyboard, so that screen readers would say nothing of it."""
    told = []
    monkeypatch.setattr(QAccessible, "isActive", lambda: True)
    monkeypatch.setattr(QAccessible, "updateAccessibility", lambda event: told.append(event.message()))
    chat.window.open_palette()
    palette = QApplication.activePopupWidget()
    qtbot.keyClicks(palette.edit, "trash")
    assert told[-1] == "Trash…"
    palette.edit.clear()
    qtbot.keyClick(palette.edit, Qt.Key.Key_Down)
    assert told[-1] == "Search all conversations, Ctrl+F"
    palette.close()


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
