"""The real window on the real engine and the starter model: nothing in between is played."""

from __future__ import annotations

import os
import shutil

import pytest
from PySide6.QtCore import Qt

from app.context import AppContext
from app.crash import CrashHandler
from app.environment import DataFolder
from app.store.records import Status
from engine.messages import ModelLoaded
from engine.processors import usable_processors

LOADING_MS = 60_000
ANSWERING_MS = 120_000


@pytest.fixture
def context(qapp, qtbot, tmp_path, starter_model):
    folder = DataFolder(tmp_path / "data")
    folder.models.mkdir(parents=True)
    try:
        (folder.models / starter_model.name).hardlink_to(starter_model)
    except OSError:  # another file system
        shutil.copyfile(starter_model, folder.models / starter_model.name)
    context = AppContext(qapp, folder, CrashHandler(folder.logs))
    context.settings.set("threads", min(2, usable_processors()))
    context.settings.set("context_length", 512)
    context.window.show()
    qtbot.waitUntil(lambda: context.models.info is not None, timeout=LOADING_MS)
    yield context
    context.close()
    context.window.close()
    context.window.deleteLater()


def test_a_person_types_and_the_model_answers(context, qtbot):
    info = context.models.info
    assert (info.engine, info.architecture) == ("native", "llama")
    page = context.window.chat_page
    qtbot.keyClicks(page.composer.edit, "What is the capital of France? One word.")
    qtbot.keyClick(page.composer.edit, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: len(context.session.path()) == 2)
    answer = context.session.path()[1]
    # A small model may talk for long: the owner stops it once it has said something.
    qtbot.waitUntil(lambda: len(answer.content) > 60 or answer.status is not Status.STREAMING, timeout=ANSWERING_MS)
    if answer.status is Status.STREAMING:
        qtbot.mouseClick(page.composer.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: answer.status is not Status.STREAMING, timeout=ANSWERING_MS)
    assert answer.status in (Status.COMPLETE, Status.STOPPED)
    assert answer.content.strip()
    assert answer.details["engine"] == "native"
    assert answer.details["prefill_speed"] > 0
    assert answer.details["generated_tokens"] >= 1
    assert "decode" in page.transcript._overlay._footers[answer.id].facts.text()
    stored = []
    context.store.call(lambda store: store.messages(context.session.conversation_id), stored.extend)
    qtbot.waitUntil(lambda: len(stored) == 2)
    assert stored[1].content == answer.content


def test_a_prompt_longer_than_the_context_asks_and_trims(context, qtbot):
    session = context.session
    session.send("word " * 900)
    qtbot.waitUntil(lambda: bool(context.window.chat_page.problem_stack.cards), timeout=ANSWERING_MS)
    problem = context.window.chat_page.problem_stack.cards[0].problem
    assert "tokens" in problem.cause
    assert [action.primary for action in problem.actions] == [True, False, False]
    assert session.path()[0].content == "word " * 900


def test_a_file_that_is_no_model_is_explained_and_the_old_model_stays(context, qtbot, tmp_path):
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF but not really")
    before = context.models.info
    context.models.load(bad)
    qtbot.waitUntil(lambda: bool(context.window.chat_page.problem_stack.cards), timeout=LOADING_MS)
    assert "bad.gguf" in context.window.chat_page.problem_stack.cards[0].problem.cause
    assert context.models.info == before


def test_an_answer_is_continued_where_it_ended(context, qtbot):
    session = context.session
    session.set_parameters({"temperature": 0.0, "max_tokens": 4})
    session.send("Count from one to ten in words.")
    qtbot.waitUntil(lambda: len(session.path()) == 2 and not session.is_busy, timeout=ANSWERING_MS)
    answer = session.path()[1]
    beginning = answer.content
    assert answer.details["reason"] == "length"
    session.continue_answer(answer.id)
    qtbot.waitUntil(lambda: not session.is_busy and len(answer.content) > len(beginning), timeout=ANSWERING_MS)
    session.set_parameters({"temperature": 0.0, "max_tokens": 8})
    session.regenerate(answer.id)
    qtbot.waitUntil(lambda: session.path()[1].id != answer.id and not session.is_busy, timeout=ANSWERING_MS)
    assert session.path()[1].content == answer.content


def test_a_model_file_that_is_touched_ends_the_answer_and_is_loaded_again_by_a_button(context, qtbot, starter_model):
    path = context.models.models_folder / "Touched.gguf"
    shutil.copyfile(starter_model, path)
    context.models.load(path)
    qtbot.waitUntil(
        lambda: context.models.info is not None and context.models.info.path == str(path), timeout=LOADING_MS
    )
    session, problems = context.session, context.window.chat_page.problem_stack
    session.set_parameters({"temperature": 0.0, "max_tokens": 400})
    session.send("Count from one to a hundred in words.")
    qtbot.waitUntil(lambda: len(session.path()) == 2 and bool(session.path()[1].content), timeout=ANSWERING_MS)
    os.utime(path, (1, 1))
    qtbot.waitUntil(lambda: bool(problems.cards), timeout=ANSWERING_MS)
    assert session.path()[1].status is Status.FAILED
    assert session.path()[1].content
    problem = problems.cards[0].problem
    assert "Touched.gguf was changed by another program while in use" in problem.cause
    loads = []
    context.client.drained.connect(lambda arrivals: loads.extend(e for _, e in arrivals if isinstance(e, ModelLoaded)))
    problem.actions[0].run()
    qtbot.waitUntil(lambda: bool(loads), timeout=LOADING_MS)
    session.set_parameters({"temperature": 0.0, "max_tokens": 4})
    session.regenerate(session.path()[1].id)
    qtbot.waitUntil(lambda: not session.is_busy and session.path()[1].status is Status.COMPLETE, timeout=ANSWERING_MS)
