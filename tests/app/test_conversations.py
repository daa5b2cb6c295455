"""The sidebar: search, pins, folders, copies, files, trash, titles."""

from __future__ import annotations

import datetime

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QInputMethodEvent
from PySide6.QtWidgets import QApplication, QLineEdit

from app.chat.conversation_list_model import ID_ROLE, Heading, grouped
from app.chat.conversations import title_from
from app.chat.titles import clean_title
from app.chat.trash_dialog import TrashDialog
from app.store.records import Conversation, Status
from engine.messages import Abort, FinishReason, GenerationFinished, TokenEvent
from tests.support.scripted_engine import model_info


@pytest.fixture
def say(app, qtbot):
    def send(text: str, answer: str = "An answer") -> str:
        app.engine.answer = answer
        app.session.send(text)
        qtbot.waitUntil(lambda: app.session.path()[-1].status is Status.COMPLETE)
        return app.session.conversation_id

    return send


def titles(app) -> list[str]:
    return [row.title for row in app.context.conversations.rows()]


def shown(app) -> list[str]:
    model = app.window.sidebar.list.model()
    return [model.index(row).data() for row in range(model.rowCount())]


def test_search_finds_words_in_answers_and_opens_at_the_message(app, say, qtbot):
    say("first question", "the needle is here")
    app.session.new()
    say("second question", "nothing")
    app.window.sidebar.search.setText("needle")
    qtbot.waitUntil(lambda: shown(app) == ["Found", "first question"])
    listed = app.window.sidebar.list
    revealed = []
    app.session.revealed.connect(revealed.append)
    listed.clicked.emit(listed.model().index(1))
    qtbot.waitUntil(lambda: len(app.session.path()) == 2 and bool(revealed))
    assert app.session.path()[1].id == revealed[0]
    app.window.sidebar.search.clear()
    assert len(shown(app)) == 3


def test_search_finds_a_branch_that_is_not_shown(app, say, qtbot):
    say("question", "the needle is here")
    app.engine.answer = "something else"
    app.session.regenerate(app.session.path()[1].id)
    qtbot.waitUntil(lambda: app.session.path()[1].content == "something else" and not app.session.is_busy)
    app.window.sidebar.search.setText("needle")
    qtbot.waitUntil(lambda: len(shown(app)) == 2 and shown(app)[0] == "Found")
    listed = app.window.sidebar.list
    listed.clicked.emit(listed.model().index(1))
    qtbot.waitUntil(lambda: app.session.path()[1].content == "the needle is here")


def test_nothing_found_is_said(app, say, qtbot):
    say("question")
    app.window.sidebar.search.setText("absent words")
    qtbot.waitUntil(lambda: shown(app) == ["Nothing found"])


def test_pins_come_first_and_folders_have_a_heading(app, say):
    first = say("first")
    app.session.new()
    second = say("second")
    assert titles(app) == ["second", "first"]
    app.context.conversations.toggle_pin(first)
    assert shown(app) == ["Pinned", "first", "Today", "second"]
    app.context.conversations.move(second, "  Work ")
    assert shown(app) == ["Pinned", "first", "Work", "second"]
    assert app.context.conversations.folders() == ["Work"]


def test_a_copy_is_a_conversation_of_its_own(app, say, qtbot):
    key = say("first")
    app.window._actions.run("duplicate", key)
    qtbot.waitUntil(lambda: len(titles(app)) == 2)
    assert titles(app) == ["first (copy)", "first"]
    copy = app.context.conversations.rows()[0].id
    app.session.open(copy)
    qtbot.waitUntil(lambda: app.session.conversation_id == copy and len(app.session.path()) == 2)
    say("only in the copy")
    app.session.open(key)
    qtbot.waitUntil(lambda: len(app.session.path()) == 2)


@pytest.mark.parametrize("kind", ["json", "md"])
def test_export_and_import(app, say, qtbot, tmp_path, monkeypatch, kind):
    key = say("Keep me", "word **for** word")
    path = tmp_path / f"out.{kind}"
    monkeypatch.setattr("app.chat.conversation_actions.QFileDialog.getSaveFileName", lambda *_: (str(path), ""))
    app.window._actions.run("export_json" if kind == "json" else "export_markdown", key)
    qtbot.waitUntil(path.exists)
    app.window._actions.read(path)
    qtbot.waitUntil(lambda: len(titles(app)) == 2)
    imported = next(row.id for row in app.context.conversations.rows() if row.id != key)
    app.session.open(imported)
    qtbot.waitUntil(lambda: len(app.session.path()) == 2)
    assert app.session.path()[1].content == "word **for** word"


def test_a_file_that_cannot_be_imported_is_explained(app, qtbot, tmp_path):
    (tmp_path / "x.json").write_text("{}")
    app.window._actions.read(tmp_path / "x.json")
    qtbot.waitUntil(lambda: bool(app.page.problem_stack.cards))
    assert "x.json" in app.page.problem_stack.cards[0].problem.cause


def test_the_trash_gives_back_and_deletes_for_good(app, say, qtbot):
    first = say("first")
    app.session.new()
    second = say("second")
    for key in (first, second):
        app.context.conversations.delete(key)
    rows = []
    app.context.conversations.trash(rows.extend)
    qtbot.waitUntil(lambda: len(rows) == 2)
    dialog = TrashDialog(rows, app.context.conversations, app.window)
    qtbot.addWidget(dialog)
    dialog.list.item([row.id for row in rows].index(first)).setSelected(True)
    dialog.restore.click()
    assert titles(app) == ["first"]
    dialog.list.item(0).setSelected(True)
    dialog.purge.click()
    left = []
    app.context.store.call(lambda store: store.conversations(deleted=True) + store.messages(second), left.append)
    qtbot.waitUntil(lambda: left == [[]])
    dialog.close()
    app.window.toast.button.click()  # the undo of its deletion still stands there
    assert titles(app) == ["first"]


def test_renaming_in_the_list(app, say, qtbot):
    say("first")
    listed = app.window.sidebar.list
    index = listed.model().index(1)
    listed.edit(index)
    editor = listed.findChild(QLineEdit)
    editor.setText("A better title")
    listed.commitData(editor)
    listed.closeEditor(editor, listed.itemDelegate().EndEditHint.NoHint)
    assert titles(app) == ["A better title"]
    assert index.data(ID_ROLE)


def test_the_model_gives_a_title_when_nobody_waits(app, say, qtbot):
    key = say("How do I lay a mosaic?", "With patience.")
    app.engine.answer = '"Laying a Mosaic"'
    qtbot.waitUntil(lambda: titles(app) == ["Laying a Mosaic"], timeout=8000)
    assert app.context.conversations.get(key).titled_by == "model"
    assert len(app.session.path()) == 2
    count = len(app.engine.requests())
    say("And then?", "Grout.")
    qtbot.wait(50)
    assert len(app.engine.requests()) == count + 1


def test_a_title_the_owner_gave_stays(app, say, qtbot):
    key = say("first")
    app.context.conversations.rename(key, "Mine")
    app.context.titles._ask()
    assert titles(app) == ["Mine"]
    assert len(app.engine.requests()) == 1


def test_a_message_aborts_the_search_for_a_title(app, say, qtbot):
    say("first")
    app.engine.answer = None
    app.context.titles._ask()
    request = app.engine.requests()[-1]
    assert request.request_id.startswith("title-")
    app.session.send("second")
    assert Abort(request.request_id) in app.engine.commands
    app.engine.emit(TokenEvent(request.request_id, "Late title"))
    app.engine.emit(GenerationFinished(request.request_id, FinishReason.ABORTED, None))
    qtbot.wait(60)
    assert titles(app) == ["first"]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ('"Mosaic Basics"', "Mosaic Basics"),
        ("**Title:** Mosaic Basics\nand more", "Mosaic Basics"),
        ("<think>hm</think>\n\nMosaics.", "Mosaics"),
        ("马赛克艺术", "马赛克艺术"),
        ("", ""),
        ("At most six words, no quotation marks.", ""),
        ("I am sorry, but as a language model I cannot give a title to that", ""),
    ],
)
def test_titles_are_cleaned(text, title):
    assert clean_title(text) == title


def test_first_titles():
    assert title_from("\n  Hello   there\nmore") == "Hello there"
    assert len(title_from("word " * 50)) <= 61


def test_groups_by_date():
    now = datetime.datetime(2026, 3, 20, 12)

    def row(days: float, **more) -> Conversation:
        return Conversation(str(days), f"{days}", updated_at=now.timestamp() - days * 86400, **more)

    rows = grouped([row(40, pinned=True), row(0.1), row(1), row(3), row(20), row(60)], now)
    assert [item.text for item in rows if isinstance(item, Heading)] == [
        "Pinned",
        "Today",
        "Yesterday",
        "Previous 7 days",
        "Previous 30 days",
        "January 2026",
    ]


def test_a_conversation_offers_the_model_it_was_held_with(app, say, qtbot, data_folder):
    key = say("first")
    first = app.context.models.info
    app.session.new()
    other = data_folder.models / "Other-2B.Q8_0.gguf"
    other.write_bytes(b"GGUF")
    app.engine.info = model_info(str(other), "Other 2B")
    app.context.models.load(other)
    qtbot.waitUntil(lambda: app.context.models.info.path == str(other))
    app.session.open(key)
    qtbot.waitUntil(lambda: bool(app.page.problem_stack.cards))
    problem = app.page.problem_stack.cards[0].problem
    assert "Scripted 1B" in problem.cause
    assert "Other 2B" in problem.cause
    app.engine.info = first
    problem.actions[0].run()
    qtbot.waitUntil(lambda: app.context.models.info.path == first.path)
    app.session.new()
    assert app.page.problem_stack.cards == []


def test_renaming_waits_for_the_input_method(app, say, qtbot):
    say("first")
    listed = app.window.sidebar.list
    listed.edit(listed.model().index(1))
    editor = listed.findChild(QLineEdit)
    editor.clear()
    QApplication.sendEvent(editor, QInputMethodEvent("mu", []))
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert titles(app) == ["first"]
    commit = QInputMethodEvent("", [])
    commit.setCommitString("木")
    QApplication.sendEvent(editor, commit)
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: titles(app) == ["木"])


def test_the_trash_is_emptied_where_the_owner_wants_it(start, qtbot):
    first = start()
    conversations = first.context.conversations
    for title in ("old", "new", "kept"):
        conversations.create(title)
    rows = {row.title: row for row in conversations.rows()}
    for title in ("old", "new"):
        conversations.delete(rows[title].id)
    rows["old"].deleted_at -= 10 * 86_400
    conversations._put(rows["old"])
    first.context.settings.set("trash_days", 7)
    first.context.close()
    second = start()
    trash = []
    second.context.conversations.trash(trash.extend)
    qtbot.waitUntil(lambda: bool(trash))
    assert [row.title for row in trash] == ["new"]
    assert [row.title for row in second.context.conversations.rows()] == ["kept"]
