"""A full context can be given room by a summary that everybody sees."""

from __future__ import annotations

import pytest

from app.chat.prompting import SUMMARY, first_kept, prompt_messages
from app.store.records import Message, Status
from engine.messages import Abort, ErrorInfo, FinishReason, GenerationFinished, TokenEvent


def path(turns: int) -> list[Message]:
    messages = []
    for turn in range(turns):
        messages.append(Message(f"u{turn}", "c", None, "user", f"question {turn}"))
        messages.append(Message(f"a{turn}", "c", None, "assistant", f"answer {turn}"))
    return [*messages, Message("last", "c", None, "user", "the last one")]


def test_the_younger_half_is_kept():
    assert first_kept(path(4)).id == "u2"
    assert first_kept(path(1)).id == "last"
    assert first_kept(path(0)) is None


def test_the_summary_stands_for_what_was_before():
    messages = path(3)
    messages[4].details[SUMMARY] = "They spoke of mosaics."
    told = list(prompt_messages(messages))
    assert [m.role for m in told] == ["user", "assistant", "user"]
    assert told[0].content == "(Summary of our conversation so far: They spoke of mosaics.)\n\nquestion 2"
    assert first_kept(messages).id == "last"


@pytest.fixture
def full(app, qtbot):
    """A conversation of three turns whose next prompt does not fit."""
    for number in range(3):
        app.session.send(f"question {number}")
        qtbot.waitUntil(lambda: app.session.path()[-1].status is Status.COMPLETE)
    app.engine.answer = None
    app.session.send("too much")
    qtbot.waitUntil(lambda: len(app.engine.requests()) == 4)
    error = ErrorInfo("ContextOverflowError", "Too long.")
    app.engine.emit(GenerationFinished(app.engine.requests()[-1].request_id, FinishReason.ERROR, None, error))
    qtbot.waitUntil(lambda: bool(app.page.problem_stack.cards))
    actions = {action.label: action.run for action in app.page.problem_stack.cards[0].problem.actions}
    actions["Summarise the oldest messages"]()
    return app


def test_summarise_and_answer(full, qtbot):
    request = full.engine.requests()[-1]
    assert "question 0" in request.messages[0].content
    assert "too much" not in request.messages[0].content
    full.engine.emit(TokenEvent(request.request_id, "They asked things."))
    full.engine.answer = "fits now"
    full.engine.emit(GenerationFinished(request.request_id, FinishReason.STOP, None))
    qtbot.waitUntil(lambda: full.session.path()[-1].content == "fits now")
    told = full.engine.requests()[-1].messages
    assert "They asked things." in told[0].content
    assert not any("question 0" in message.content for message in told)
    shown = full.page.transcript.message_views[4].views[0].source
    assert "They asked things." in shown
    assert len(full.session.path()) == 8  # nothing was removed


def test_a_summary_that_fails_changes_nothing(full, qtbot):
    request = full.engine.requests()[-1]
    full.engine.emit(GenerationFinished(request.request_id, FinishReason.STOP, None))
    qtbot.waitUntil(lambda: "no summary" in full.page.problem_stack.cards[-1].problem.cause)
    assert not any(SUMMARY in message.details for message in full.session.path())


def test_it_can_be_stopped(full, qtbot):
    request = full.engine.requests()[-1]
    card = next(card for card in full.page.problem_stack.cards if card.problem.key == "summary")
    card.problem.actions[0].run()
    assert Abort(request.request_id) in full.engine.commands
    qtbot.waitUntil(lambda: all(card.problem.key != "summary" for card in full.page.problem_stack.cards))
    assert not any(SUMMARY in message.details for message in full.session.path())
