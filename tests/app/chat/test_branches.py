"""Versions of a turn, editing, deleting: nothing is lost, everything can be gone back to."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication

from app.chat.transcript.plain_view import NoteView
from app.store.records import Status
from engine.messages import FinishReason, GenerationFinished, TokenEvent


@pytest.fixture
def chat(app, qtbot):
    def say(text: str, answer: str) -> None:
        app.engine.answer = answer
        count = len(app.session.path())
        app.session.send(text)
        qtbot.waitUntil(lambda: len(app.session.path()) == count + 2 and done(app))

    return app, say


def done(app) -> bool:
    return app.session.path()[-1].status is not Status.STREAMING


def contents(app) -> list[str]:
    return [message.content for message in app.session.path()]


def footer_of(app, message):
    return app.page.transcript._overlay._footers[message.id]


def test_editing_a_question_makes_a_branch_and_back(chat, qtbot):
    app, say = chat
    say("one", "first")
    say("two", "second")
    before = contents(app)
    app.engine.answer = "other"
    qtbot.mouseClick(footer_of(app, app.session.path()[2]).edit, Qt.MouseButton.LeftButton)
    assert app.page.composer.text == "two"
    app.page.composer.set_text("two, but better")
    qtbot.keyClick(app.page.composer.edit, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: contents(app)[-1] == "other" and done(app))
    assert contents(app) == ["one", "first", "two, but better", "other"]
    footer = footer_of(app, app.session.path()[2])
    assert footer.version.text() == "2/2"
    qtbot.mouseClick(footer.earlier, Qt.MouseButton.LeftButton)
    assert contents(app) == before
    qtbot.mouseClick(footer_of(app, app.session.path()[2]).later, Qt.MouseButton.LeftButton)
    assert contents(app)[-1] == "other"


def test_leaving_an_edit_brings_the_draft_back(chat, qtbot):
    app, say = chat
    say("one", "first")
    app.page.composer.set_text("a draft")
    app.page._act("edit", app.session.path()[0])
    qtbot.mouseClick(app.page.composer.cancel_edit, Qt.MouseButton.LeftButton)
    assert app.page.composer.text == "a draft"
    assert contents(app) == ["one", "first"]


def test_editing_an_answer_changes_it_in_place_and_keeps_what_follows(chat, qtbot):
    app, say = chat
    say("one", "first")
    say("two", "second")
    app.page._act("edit", app.session.path()[1])
    app.page.composer.set_text("first, corrected")
    qtbot.keyClick(app.page.composer.edit, Qt.Key.Key_Return)
    assert contents(app) == ["one", "first, corrected", "two", "second"]
    say("three", "third")
    assert [m.content for m in app.engine.requests()[-1].messages][1] == "first, corrected"


def test_deleting_can_be_undone(chat, qtbot):
    app, say = chat
    say("one", "first")
    say("two", "second")
    app.page._act("delete", app.session.path()[1])
    assert contents(app) == ["one"]
    qtbot.mouseClick(app.window.toast.button, Qt.MouseButton.LeftButton)
    assert contents(app) == ["one", "first", "two", "second"]
    stored = []
    app.context.store.call(lambda store: store.messages(app.session.conversation_id), stored.extend)
    qtbot.waitUntil(lambda: bool(stored))
    assert sorted(m.content for m in stored) == sorted(contents(app))


def test_nothing_can_be_changed_while_an_answer_is_written(chat, qtbot):
    app, say = chat
    say("one", "first")
    question = app.session.path()[0]
    app.engine.answer = None
    app.session.send("two")
    qtbot.waitUntil(lambda: app.session.is_busy)
    footer = footer_of(app, question)
    assert not footer.edit.isEnabled()
    app.session.edit(question.id, "changed")
    app.session.delete(question.id)
    app.session.regenerate(question.id)
    assert contents(app)[:2] == ["one", "first"]
    assert len(app.session.path()) == 4


def test_copying_an_answer_gives_readable_words_and_exact_code(chat):
    app, say = chat
    say("one", "<think>hidden</think>\n\n## Title\n\nSome **bold** words\n\n- a\n- b\n\n```c\nx &lt; y\n```")
    app.page._act("copy", app.session.path()[1])
    assert QGuiApplication.clipboard().text() == "Title\n\nSome bold words\n\n• a\n• b\n\nx &lt; y"
    app.page._act("copy_markdown", app.session.path()[1])
    assert QGuiApplication.clipboard().text().startswith("## Title\n\nSome **bold**")


def test_what_was_thought_is_not_told_again(chat):
    app, say = chat
    say("one", "<think>secret plan</think>\n\nfirst")
    say("two", "second")
    assert [m.content for m in app.engine.requests()[-1].messages] == ["one", "first", "two"]


def test_thoughts_are_folded_and_can_be_unfolded(chat, qtbot):
    app, say = chat
    say("one", "<think>a ~secret~\n  plan</think>\n\nfirst")
    answer = app.session.path()[1]
    view = app.page.transcript.message_views[1]
    assert len(view.views) == 2
    button = app.page.transcript._overlay._folds[answer.id, "thinking"]
    assert button.text().startswith("Thought")
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert view.views[1].source == "a ~secret~\n  plan"
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert len(view.views) == 2


CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def test_a_tool_call_is_folded_with_its_name_and_arguments(chat, qtbot):
    app, say = chat
    say("one", f"<think>hm</think>Let me look.\n{CALL}")
    answer, view = app.session.path()[1], app.page.transcript.message_views[1]
    assert [type(block).__name__ for block in view.views] == ["FoldHeader", "MarkdownView", "FoldHeader"]
    button = app.page.transcript._overlay._folds[answer.id, "call 0"]
    assert button.text() == "Tool call: weather (not executed)"
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert view.views[-1].source == '{\n  "city": "Paris"\n}'
    assert view.views[-1].language == "json"
    app.page._act("copy_markdown", answer)
    assert QGuiApplication.clipboard().text().startswith("Let me look.\n\nweather {")
    say("two", "second")
    assert "weather" in app.engine.requests()[-1].messages[1].content
    assert "tool_call" not in app.engine.requests()[-1].messages[1].content


def test_a_tool_call_that_is_being_written_says_so(chat, qtbot):
    app, _ = chat
    app.engine.answer = None
    app.session.send("one")
    qtbot.waitUntil(lambda: bool(app.engine.requests()))
    request = app.engine.requests()[-1]
    app.engine.begin(request)
    for piece in (CALL[:30], CALL[30:40]):
        app.engine.emit(TokenEvent(request.request_id, piece))
    view = app.page.transcript.message_views[1]
    qtbot.waitUntil(lambda: len(view.views) == 1)
    assert view.views[0].words == "Writing a tool call…"
    app.engine.emit(TokenEvent(request.request_id, CALL[40:]))
    app.engine.emit(GenerationFinished(request.request_id, FinishReason.STOP, None))
    qtbot.waitUntil(lambda: view.views[0].words.startswith("Tool call: weather"))


def test_channels_are_thoughts_and_answer(chat):
    app, say = chat
    say("one", "<|channel|>analysis<|message|>a plan<|end|><|start|>assistant<|channel|>final<|message|>first")
    view = app.page.transcript.message_views[1]
    assert [block.source for block in view.views] == ["", "first"]
    say("two", "second")
    assert [m.content for m in app.engine.requests()[-1].messages] == ["one", "first", "two"]


def test_a_literal_closing_tag_in_code_stays_in_the_answer(chat):
    app, say = chat
    say("one", "Use this:\n\n```html\n</think>\n```\n\ndone")
    views = app.page.transcript.message_views[1].views
    assert [view.source for view in views] == ["Use this:", "</think>", "done"]


def test_a_stopped_answer_is_continued_in_place(chat, qtbot):
    app, say = chat
    say("one", "first")
    answer = app.session.path()[1]
    assert not footer_of(app, answer).go_on.isVisible()
    answer.details["reason"] = "length"
    app.page.transcript.refresh(answer)
    app.engine.answer = "and more"
    qtbot.mouseClick(footer_of(app, answer).go_on, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: done(app) and answer.content == "firstand more")
    assert app.engine.requests()[-1].answer_prefix == "first"
    assert [m.content for m in app.engine.requests()[-1].messages] == ["one"]
    assert len(app.session.path()) == 2
    assert app.page.transcript.message_views[1].views[0].source == "firstand more"


@pytest.mark.parametrize(
    ("answer", "said"),
    [("<think>hm</think>", "After these thoughts no answer came."), ("", "No answer came."), ("Yes", "")],
)
def test_an_answer_without_words_is_no_riddle(chat, answer, said):
    app, say = chat
    say("one", answer)
    views = app.page.transcript.message_views[-1].views
    assert [view.source for view in views if isinstance(view, NoteView)] == ([said] if said else [])


def test_a_call_that_was_cut_short_is_shown_as_it_stands(chat):
    app, say = chat
    say("one", '<tool_call>\n{"name": "weather", "argu')
    (header,) = app.page.transcript.message_views[-1].views
    assert "cannot be read" in header.words
    app.page.transcript.toggle_fold(app.session.path()[-1].id, header.key)
    assert app.page.transcript.message_views[-1].views[1].source == '{"name": "weather", "argu'
    assert footer_of(app, app.session.path()[-1]).regenerate.isVisible()
