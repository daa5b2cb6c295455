"""The window as its owner uses it."""

from __future__ import annotations

import json

import pytest
from PySide6.QtCore import Qt

from app.store.records import Status
from engine.messages import (
    Abort,
    EngineStopped,
    ErrorInfo,
    FinishReason,
    GenerationFinished,
    LoadModel,
    Overflow,
    TokenEvent,
)
from tests.support.scripted_engine import stats


def send(qtbot, app, text: str) -> None:
    edit = app.page.composer.edit
    qtbot.keyClicks(edit, text)
    qtbot.keyClick(edit, Qt.Key.Key_Return)


def answered(app) -> bool:
    path = app.session.path()
    return len(path) > 1 and path[-1].role == "assistant" and path[-1].status is not Status.STREAMING


def test_first_sentence_can_be_typed_at_once_and_is_answered(app, qtbot):
    assert isinstance(app.engine.commands[0], LoadModel)
    assert "Scripted 1B" in app.page.picker.text()
    assert app.window.focusWidget() is app.page.composer.edit
    send(qtbot, app, "Hello you")
    qtbot.waitUntil(lambda: answered(app))
    question, answer = app.session.path()
    assert (question.content, answer.content) == ("Hello you", "Hello **there**.")
    footer = app.page.transcript._overlay._footers[answer.id]
    assert "native engine" in footer.facts.toolTip()
    for fact in ("2 tokens", "decode 10.0", "prefill 75.0", "250 ms", "complete"):
        assert fact in footer.facts.text()
    assert app.page.composer.text == ""
    assert [row.title for row in app.context.conversations.rows()] == ["Hello you"]


def test_answers_are_still_there_after_a_restart(start, qtbot):
    first = start()
    send(qtbot, first, "Remember this")
    qtbot.waitUntil(lambda: answered(first))
    contents = [message.content for message in first.session.path()]
    first.context.close()
    second = start()
    qtbot.waitUntil(lambda: len(second.context.conversations.rows()) == 1)
    second.session.open(second.context.conversations.rows()[0].id)
    qtbot.waitUntil(lambda: len(second.session.path()) == 2)
    assert [message.content for message in second.session.path()] == contents
    assert second.page.transcript.isVisible()


def test_stop_sends_abort_and_keeps_the_text(app, qtbot):
    app.engine.answer = None
    send(qtbot, app, "Tell me everything")
    qtbot.waitUntil(lambda: bool(app.engine.requests()))
    request = app.engine.requests()[0]
    app.engine.begin(request)
    app.engine.emit(TokenEvent(request.request_id, "It begins"))
    qtbot.waitUntil(lambda: app.session.path()[-1].content == "It begins")
    qtbot.mouseClick(app.page.composer.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: answered(app))
    assert Abort(request.request_id) in app.engine.commands
    answer = app.session.path()[-1]
    assert (answer.content, answer.status) == ("It begins", Status.STOPPED)


def test_regenerating_makes_a_second_version(app, qtbot):
    send(qtbot, app, "Hi")
    qtbot.waitUntil(lambda: answered(app))
    first = app.session.path()[-1]
    app.engine.answer = "Another answer"
    footer = app.page.transcript._overlay._footers[first.id]
    qtbot.mouseClick(footer.regenerate, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: answered(app) and app.session.path()[-1].id != first.id)
    assert app.session.path()[-1].content == "Another answer"
    assert [version.content for version in app.session.tree.siblings(first.id)] == [
        "Hello **there**.",
        "Another answer",
    ]


def overflow(app, qtbot, kind: str, turns: int):
    """The problem that is shown where the last of `turns` ends with an error of this kind."""
    app.engine.answer = "Short"
    for _ in range(turns - 1):
        send(qtbot, app, "Short")
        qtbot.waitUntil(lambda: answered(app))
    app.engine.answer = None
    send(qtbot, app, "Long")
    qtbot.waitUntil(lambda: len(app.engine.requests()) == turns)
    error = ErrorInfo(kind, "Too long.", "Nothing was removed.", "Trim or stop.")
    app.engine.emit(GenerationFinished(app.engine.requests()[-1].request_id, FinishReason.ERROR, None, error))
    qtbot.waitUntil(lambda: bool(app.page.problem_stack.cards))
    return app.page.problem_stack.cards[0].problem


def test_a_prompt_longer_than_the_context_is_a_visible_choice(app, qtbot):
    problem = overflow(app, qtbot, "ContextOverflowError", turns=2)
    assert problem.cause == "Too long."
    assert [action.label for action in problem.actions] == [
        "Leave out the oldest messages",
        "Summarise the oldest messages",
        "Load with 8,192 tokens of context",
        "Stop here",
    ]
    app.engine.answer = "Fits now"
    problem.actions[0].run()
    qtbot.waitUntil(lambda: answered(app) and app.session.path()[-1].content == "Fits now")
    assert app.engine.requests()[-1].overflow is Overflow.TRIM_OLDEST
    assert len(app.session.path()) == 4


@pytest.mark.parametrize(("kind", "turns"), [("TurnTooLongError", 2), ("ContextOverflowError", 1)])
def test_trimming_is_not_offered_where_it_cannot_help(app, qtbot, kind, turns):
    """It was tried in vain, or there is nothing older."""
    problem = overflow(app, qtbot, kind, turns)
    assert [action.label for action in problem.actions] == [
        "Load with 8,192 tokens of context",
        "Edit the message",
        "Stop here",
    ]
    problem.actions[1].run()
    assert app.page.composer.text == "Long"


def test_an_error_in_the_middle_keeps_what_came(app, qtbot):
    app.engine.answer = None
    send(qtbot, app, "Go on")
    qtbot.waitUntil(lambda: bool(app.engine.requests()))
    request = app.engine.requests()[0]
    app.engine.begin(request)
    app.engine.emit(TokenEvent(request.request_id, "Half an ans"))
    error = ErrorInfo("OutOfMemoryError", "Memory ran out.", "The answer was ended.", "Close something.")
    app.engine.emit(GenerationFinished(request.request_id, FinishReason.ERROR, stats(2), error))
    qtbot.waitUntil(lambda: answered(app))
    answer = app.session.path()[-1]
    assert (answer.content, answer.status) == ("Half an ans", Status.FAILED)
    view = app.page.transcript.message_views[-1]
    assert "Memory ran out." in view.views[-1].source


def test_a_model_that_fails_to_load_is_explained(start, qtbot):
    error = ErrorInfo("FormatError", "x.gguf is cut short.", "It was not loaded.", "Download it again.")

    def prepare(engine):
        engine.load_error = error

    app = start(prepare, wait_for_model=False)
    qtbot.waitUntil(lambda: bool(app.page.problem_stack.cards))
    assert app.page.problem_stack.cards[0].problem.cause == "x.gguf is cut short."
    send(qtbot, app, "Anyone?")
    assert app.page.composer.text == "Anyone?"  # nothing typed is lost
    assert not app.engine.requests()


def test_a_deleted_conversation_comes_back_with_undo(app, qtbot):
    send(qtbot, app, "Keep me")
    qtbot.waitUntil(lambda: answered(app))
    key = app.session.conversation_id
    app.window.sidebar.list.action_requested.emit("delete", key)
    assert app.context.conversations.rows() == []
    assert app.session.conversation_id is None
    qtbot.mouseClick(app.window.toast.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: len(app.session.path()) == 2)
    assert [row.id for row in app.context.conversations.rows()] == [key]


def test_the_model_that_took_the_process_down_is_not_loaded_again(start, qtbot, data_folder):
    first = start()
    loaded = first.context.models.info.path
    first.context.close()
    first.context.models.crashes.loading(loaded)
    second = start(wait_for_model=False)
    qtbot.waitUntil(lambda: bool(second.page.problem_stack.cards))
    assert not any(isinstance(command, LoadModel) for command in second.engine.commands)
    second.page.problem_stack.cards[0].problem.actions[0].run()
    qtbot.waitUntil(lambda: second.context.models.info is not None)


def test_a_conversation_deleted_off_screen_stops_its_answer_and_can_be_purged(app, qtbot):
    app.engine.answer = None
    send(qtbot, app, "Tell me everything")
    qtbot.waitUntil(lambda: bool(app.engine.requests()))
    conversation = app.session.conversation_id
    app.session.new()
    app.context.conversations.delete(conversation)
    app.context.conversations.purge(conversation)
    assert Abort(app.engine.requests()[0].request_id) in app.engine.commands
    qtbot.waitUntil(lambda: not app.session.is_any_busy)
    done = []
    app.context.store.call(lambda store: store.conversations(), done.append)
    qtbot.waitUntil(lambda: done == [[]])
    assert app.page.problem_stack.cards == []


def actions_after(app, qtbot, error: ErrorInfo):
    """What is offered for an answer that ends so."""
    app.engine.answer = None
    send(qtbot, app, "Hi")
    qtbot.waitUntil(lambda: bool(app.engine.requests()))
    request = app.engine.requests()[0]
    app.engine.emit(GenerationFinished(request.request_id, FinishReason.ERROR, None, error))
    qtbot.waitUntil(lambda: bool(app.page.problem_stack.cards))
    return app.page.problem_stack.cards[0].problem.actions


def loads(app) -> int:
    return sum(isinstance(command, LoadModel) for command in app.engine.commands)


def test_a_model_file_that_changed_is_offered_to_be_loaded_again(app, qtbot):
    (action,) = actions_after(app, qtbot, ErrorInfo("FileChangedError", "It was cut."))
    before = loads(app)
    action.run()
    assert loads(app) == before + 1
    app.engine.answer = "Fine."
    app.session.regenerate_last()
    assert app.page.problem_stack.cards == []


def test_a_gpu_that_failed_can_be_tried_again_or_left_for_another_load(app, qtbot):
    error = ErrorInfo("DeviceFailedError", "The GPU failed.", "What was said so far is kept.", "Try again.")
    again, load = actions_after(app, qtbot, error)
    assert again.primary and not load.primary
    before = loads(app)
    load.run()
    assert loads(app) == before + 1
    app.engine.answer = "Fine."
    again.run()
    qtbot.waitUntil(lambda: len(app.engine.requests()) == 2)


def test_after_unloading_nobody_is_asked(app, qtbot):
    app.context.models.unload()
    send(qtbot, app, "Hi")
    assert app.engine.requests() == []
    assert app.page.composer.text == "Hi"


def test_a_long_paste_becomes_an_attachment(app, qtbot):
    text = "word " * 200_000
    app.page.composer.edit.long_pasted.emit(text)
    (chip,) = app.page.attachments.chips
    assert chip.attachment.text == text
    qtbot.mouseClick(app.page.composer.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: bool(app.engine.requests()))
    assert text.rstrip() in app.engine.requests()[0].messages[-1].content


def test_settings_and_markers_that_cannot_be_written_stop_nothing(app, qtbot, data_folder, tmp_path):
    data_folder.settings.with_suffix(".json.part").mkdir()
    data_folder.load_marker.with_suffix(".json.part").mkdir()
    app.context.models.load(tmp_path / "other.gguf")
    qtbot.waitUntil(lambda: app.context.models.loading_path is None)
    app.context.settings.set("threads", 1)
    assert any("could not be saved" in card.problem.cause for card in app.page.problem_stack.cards)
    send(qtbot, app, "Hi")
    qtbot.waitUntil(lambda: answered(app))
    app.window.close()
    assert not app.window.isVisible()


def test_a_load_can_be_stopped_and_the_model_before_answers(app, qtbot, data_folder, tmp_path):
    button = app.page.stop_loading
    assert not button.isVisible()
    before = app.context.models.info.path
    app.engine.loading = ""
    app.context.models.load(tmp_path / "huge.gguf")
    qtbot.waitUntil(button.isVisible)
    assert "huge" in app.page.picker.text()
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not button.isVisible())
    assert app.context.models.info.path == before
    assert json.loads(data_folder.load_marker.read_text())["path"] == before, "what a crash would be blamed on"
    send(qtbot, app, "Hi")
    qtbot.waitUntil(lambda: answered(app))


def test_an_engine_that_ends_unasked_is_started_again(app, qtbot):
    app.engine.answer = None
    send(qtbot, app, "Go on")
    qtbot.waitUntil(lambda: bool(app.engine.requests()))
    request = app.engine.requests()[0]
    app.engine.begin(request)
    app.engine.emit(TokenEvent(request.request_id, "Half"))
    app.engine.emit(EngineStopped(ErrorInfo("RuntimeError", "The engine broke.")))
    qtbot.waitUntil(lambda: app.context.models.info is None)
    answer = app.session.path()[-1]
    assert (answer.content, answer.status) == ("Half", Status.FAILED)
    card = next(card for card in app.page.problem_stack.cards if card.problem.key == "engine")
    card.problem.actions[0].run()
    qtbot.waitUntil(lambda: app.context.models.info is not None)
    app.session.regenerate(answer.id)
    qtbot.waitUntil(lambda: answered(app) and app.session.path()[-1].status is Status.COMPLETE)


def test_a_long_name_loses_its_middle_and_keeps_its_end(app):
    name = "Qwen3 Coder 480B A35B Instruct Abliterated Extended Context Preview 2507"
    app.context.models.loading_path, app.context.models.loading_fraction = f"/m/{name}.gguf", 0.42
    app.page.picker._show_state()
    assert app.page.picker.text().startswith("Loading Qwen3 Coder 480B A35B…")
    assert app.page.picker.text().endswith("…Context Preview 2507… 42 % ")


def test_the_toast_stands_in_the_middle_of_the_page(app):
    app.window.toast.show_text("Deleted")
    toast, stack = app.window.toast, app.window.stack
    middle = stack.mapTo(app.window, stack.rect().center()).x()
    assert abs(toast.geometry().center().x() - middle) <= 1
