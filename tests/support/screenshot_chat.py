"""More states of the chat: thinking, ended in every way, formulas, other scripts, files, dialogs and menus."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QMessageBox, QWidget

from app.chat.attachments import Attachment, stored
from app.chat.trash_dialog import TrashDialog
from engine.messages import FinishReason, GenerationFinished, TokenEvent
from tests.support.screenshot_texts import FORMULAS, LONG_CODE, OTHER_SCRIPTS, THINKING
from tests.support.scripted_engine import stats

if TYPE_CHECKING:
    from tests.screenshots import Stage

CHAT_PAGES = {
    "chat-thinking",
    "chat-stopped",
    "chat-context-full",
    "chat-formulas",
    "chat-scripts",
    "chat-long-code",
    "chat-file-sent",
    "chat-undo",
    "chat-search-empty",
    "chat-folders",
    "conversation-menu",
    "answer-menu",
    "trash",
    "link-question",
    "chat-compatibility",
}


def chat_pages(stage: Stage) -> Iterator[tuple[str, QWidget]]:
    context = stage.start()
    window, session = context.window, context.session
    stage.fill_list()
    engine = stage.engine
    assert engine is not None
    engine.answer = None
    session.send("Why does a mosaic last so long?")
    stage.settle(0.1)
    request = engine.requests()[-1]
    engine.begin(request)
    for word in THINKING.split(" "):
        engine.emit(TokenEvent(request.request_id, word + " "))
    stage.settle(0.8)  # the figures below follow every quarter of a second
    yield "chat-thinking", window
    session.stop()
    stage.settle(0.3)
    yield "chat-stopped", window
    session.new()
    session.send("Write the whole history of mosaics.")
    stage.settle(0.1)
    request = engine.requests()[-1]
    engine.begin(request)
    engine.emit(TokenEvent(request.request_id, "It begins in the third millennium before our era, when cones of clay"))
    engine.emit(GenerationFinished(request.request_id, FinishReason.CONTEXT_FULL, stats(4076)))
    stage.settle(0.3)
    yield "chat-context-full", window
    for name, question, answer in (
        ("chat-formulas", "Derive the quadratic formula.", FORMULAS),
        ("chat-scripts", "مرحبا، هل يمكنك مساعدتي؟", OTHER_SCRIPTS),
        ("chat-long-code", "A longer program, please.", LONG_CODE),
    ):
        session.new()
        engine.answer = answer
        session.send(question)
        stage.settle(0.6)
        while window.chat_page.transcript._formulas._is_running:  # the first ones take long to typeset
            stage.settle(0.2)
        window.chat_page.transcript.verticalScrollBar().setValue(0)
        stage.settle(0.1)
        yield name, window
    yield from _around(stage)


def _around(stage: Stage) -> Iterator[tuple[str, QWidget]]:
    """What surrounds the transcript."""
    context, engine = stage.context, stage.engine
    assert context is not None and engine is not None
    window, session = context.window, context.session
    session.new()
    engine.answer = "Both files describe the same floor; the second one adds the materials and what they cost."
    files = [Attachment("floor-plan.pdf", "x" * 5200, 4), Attachment("materials.csv", "a,b\n" * 40)]
    session.send("What do these two say, and where do they differ?", stored(files))
    stage.settle()
    yield "chat-file-sent", window
    window.chat_page._act("delete", session.path()[-1])
    stage.settle(0.2)
    yield "chat-undo", window
    window.toast.hide()
    rows = context.conversations.rows()
    context.conversations.toggle_pin(rows[2].id)
    context.conversations.move(rows[3].id, "Travel")
    context.conversations.move(rows[4].id, "Travel")
    stage.settle(0.2)
    yield "chat-folders", window
    window.sidebar.search.setText("nothing of this kind")
    stage.settle(0.5)
    yield "chat-search-empty", window
    window.sidebar.search.clear()
    stage.settle(0.3)
    index = window.sidebar.list.model().index(window.sidebar.list._list.row_of(rows[0].id))
    menus = {"conversation-menu": window.sidebar.list.build_menu(index), "answer-menu": _answer_menu(stage)}
    for name, menu in menus.items():
        menu.popup(window.mapToGlobal(window.rect().center()))
        stage.settle(0.2)
        yield name, menu
        menu.close()
    deleted = [replace(row, deleted_at=row.updated_at + 3600) for row in rows[3:6]]
    trash = TrashDialog(deleted, context.conversations, window)
    trash.list.setCurrentRow(1)
    trash.show()
    stage.settle(0.2)
    yield "trash", trash
    trash.close()
    window.chat_page.transcript.link_activated.emit("https://en.wikipedia.org/wiki/Mosaic")
    stage.settle(0.2)
    box = window.findChild(QMessageBox)
    yield "link-question", box
    box.close()
    context = stage.start(engine="compatibility")
    stage.fill_list()
    context.session.send("Which engine answers?")
    stage.settle()
    yield "chat-compatibility", context.window


def _answer_menu(stage: Stage) -> QWidget:
    assert stage.context is not None and stage.engine is not None
    session, transcript = stage.context.session, stage.context.window.chat_page.transcript
    stage.engine.answer = "See [the article](https://en.wikipedia.org/wiki/Mosaic)."
    session.send("Where can I read more?")
    stage.settle(0.4)
    return transcript._overlay._footers[session.path()[-1].id].build_menu()
