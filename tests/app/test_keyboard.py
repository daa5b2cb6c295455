"""Commands, shortcuts and the palette."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QInputMethodEvent, QKeySequence
from PySide6.QtWidgets import QApplication, QWidget

from app.command_palette import CommandPalette, Entry, matching, score
from app.shortcuts_dialog import ShortcutsDialog
from app.store.records import Status


@pytest.fixture
def chat(app, qtbot):
    app.session.send("Question")
    qtbot.waitUntil(lambda: app.session.path()[-1].status is Status.COMPLETE)
    return app


def run(app, title: str) -> None:
    next(command for command in app.window.commands if command.title == title).run()


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
    palette = CommandPalette(entries, app.context.theme, app.window)
    qtbot.addWidget(palette)
    palette.show()
    qtbot.keyClicks(palette.edit, "stg")
    assert palette.list.count() == 1
    qtbot.keyClick(palette.edit, Qt.Key.Key_Return)
    assert ran == ["s"]


def test_the_palette_moves_with_the_arrows(app, qtbot):
    ran = []
    entries = [Entry(f"entry {i}", "", lambda i=i: ran.append(i)) for i in range(3)]
    palette = CommandPalette(entries, app.context.theme, app.window)
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


def test_text_becomes_larger_and_smaller_within_limits(chat):
    settings = chat.context.settings
    before = settings["font_size"]
    run(chat, "Larger text")
    assert (settings["font_size"], chat.context.theme.type.body) == (before + 1, before + 1)
    for _ in range(40):
        run(chat, "Smaller text")
    assert settings["font_size"] == settings.table["font_size"].minimum == chat.context.theme.type.body


def test_answer_again_by_key(chat, qtbot):
    chat.engine.answer = "Another"
    chat.session.regenerate_last()
    qtbot.waitUntil(lambda: chat.session.path()[-1].content == "Another")


def test_enter_of_an_input_method_runs_no_command(app, qtbot):
    ran = []
    palette = CommandPalette([Entry("拼音", "", lambda: ran.append(1))], app.context.theme, app.window)
    qtbot.addWidget(palette)
    palette.show()
    QApplication.sendEvent(palette.edit, QInputMethodEvent("pin", []))
    qtbot.keyClick(palette.edit, Qt.Key.Key_Return)
    assert ran == []
    commit = QInputMethodEvent("", [])
    commit.setCommitString("拼")
    QApplication.sendEvent(palette.edit, commit)
    qtbot.keyClick(palette.edit, Qt.Key.Key_Return)
    assert ran == [1]


def test_alt_and_arrows_go_from_message_to_message(chat, qtbot):
    for number in range(6):
        chat.engine.answer = f"Answer {number}. " * 120
        chat.session.send(f"Question {number}")
        qtbot.waitUntil(lambda: chat.session.path()[-1].status is Status.COMPLETE)
    path, transcript = chat.session.path(), chat.page.transcript
    chat.page.composer.setFocus()
    seen = []
    for _ in path:
        run(chat, "Previous message")
        seen.append(transcript._overlay.focused())
        view = next(top for _, view, top in transcript.visible_messages() if view.message.id == seen[-1])
        assert view >= 0 or transcript.verticalScrollBar().value() == 0
    assert seen == [message.id for message in reversed(path)]
    run(chat, "Next message")
    assert transcript._overlay.focused() == path[1].id


def test_a_button_that_gets_the_keyboard_comes_on_screen(chat, qtbot):
    chat.engine.answer = "A long answer. " * 900
    chat.session.send("More")
    qtbot.waitUntil(lambda: chat.session.path()[-1].status is Status.COMPLETE)
    transcript = chat.page.transcript
    transcript.scroll_to_message(chat.session.path()[-1].id)
    footer = transcript._overlay._footers[chat.session.path()[-1].id]
    viewport = transcript.viewport()
    assert footer.mapTo(viewport, footer.rect().topLeft()).y() > viewport.height()
    footer.more.setFocus(Qt.FocusReason.TabFocusReason)
    top = footer.more.mapTo(viewport, footer.more.rect().topLeft()).y()
    assert 0 <= top <= viewport.height() - footer.more.height()


def test_links_of_an_answer_are_in_its_menu(chat, qtbot):
    chat.engine.answer = "See [one](https://one.example/a), ![two](http://two.example) and [no](file:///etc/passwd)."
    chat.session.send("Links?")
    qtbot.waitUntil(lambda: chat.session.path()[-1].status is Status.COMPLETE)
    asked = []
    chat.page.transcript.link_activated.disconnect()
    chat.page.transcript.link_activated.connect(asked.append)
    menu = chat.page.transcript._overlay._footers[chat.session.path()[-1].id].build_menu()
    (submenu,) = [action.menu() for action in menu.actions() if action.menu() is not None]
    assert [action.text() for action in submenu.actions()] == ["https://one.example/a", "http://two.example"]
    submenu.actions()[0].trigger()
    assert asked == ["https://one.example/a"]
