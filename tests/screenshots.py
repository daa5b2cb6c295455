"""`python -m tests.screenshots [FOLDER] [--scale 1] [NAME…]`: every page in both themes, at 1x and 2x, as PNG files.

Works without a display. The states are played by the scripted engine, so that two runs give the same pictures.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QStyleFactory, QWidget

from app.chat.answer_details import AnswerDetails
from app.chat.attachments import Attachment
from app.command_palette import CommandPalette
from app.context import AppContext
from app.crash import CrashHandler
from app.environment import DataFolder
from app.none_guard import hold_singletons
from app.settings.values import Settings
from app.shortcuts_dialog import ShortcutsDialog
from engine.messages import ErrorInfo, FinishReason, GenerationFinished, ModelLoading, PrefillProgress, TokenEvent
from engine.placement.hardware.catalogue import machine
from tests.support.screenshot_chat import CHAT_PAGES, chat_pages
from tests.support.screenshot_help import HELP_PAGES, help_pages
from tests.support.screenshot_library import library_pages
from tests.support.screenshot_memory import memory_pages
from tests.support.screenshot_texts import ANSWER, LONG_NAME, QUESTION, STREAMING, TITLES, TOOL_CALLS
from tests.support.scripted_engine import ScriptedEngine, model_info, stats
from tests.support.shapes import published_shape

SCALES = (1, 2)
SETTLING_ROUNDS = 12  # on a busy machine one may take longer than what a state is given


class Stage:
    """One application in one theme, brought from state to state."""

    def __init__(self, application: QApplication, theme: str, language: str = "en") -> None:
        self.application = application
        self.data = DataFolder(Path(tempfile.mkdtemp(prefix="tessera-screenshots-")))
        self.data.models.mkdir()
        self.engine: ScriptedEngine | None = None
        self.has_model = True
        self.theme = theme
        self.language = language
        self.context: AppContext | None = None

    def start(
        self, *, name: str = "SmolLM2 135M Instruct", size: tuple[int, int] = (1120, 780), engine: str = "native"
    ) -> AppContext:
        if self.context is not None:
            self.stop()
        path = self.data.models / "SmolLM2-135M-Instruct.Q4_1.gguf"
        if self.has_model:
            path.write_bytes(b"\0" * 98_362)
        else:
            path.unlink(missing_ok=True)

        def factory(on_event: Callable) -> ScriptedEngine:
            self.engine = ScriptedEngine(on_event)
            self.engine.info = replace(model_info(str(path), name, engine), quantization="Q4_1")
            self.engine.answer = ANSWER
            return self.engine

        Settings(self.data.settings).set("language", self.language)
        context = AppContext(self.application, self.data, CrashHandler(self.data.logs), factory)
        context.settings.set("theme", self.theme)
        self.context = context
        context.window.resize(*size)
        context.window.show()
        self.settle()
        return context

    def settle(self, seconds: float = 0.35) -> None:
        """That long, and for some rounds of events at least, since a layout follows from another's end, and until all
        is in the theme's colours."""
        assert self.context is not None
        restyling = self.context.theme._restyling
        end, rounds = time.monotonic() + seconds, 0
        while time.monotonic() < end or rounds < SETTLING_ROUNDS or not restyling.is_done:
            self.application.processEvents()
            time.sleep(0.004)
            rounds += 1

    def stop(self) -> None:
        if self.context is not None:
            self.context.close()
            self.context.window.close()
            self.context.window.deleteLater()
            self.settle(0.05)
            # Outside of an event loop nothing else deletes it: every theme that follows would be put on it, too.
            self.application.sendPostedEvents(None, QEvent.Type.DeferredDelete)
            self.context = None

    def fill_list(self) -> None:
        assert self.context is not None
        for number, title in enumerate(TITLES):
            row = self.context.conversations.create(title)
            row.updated_at -= 86_400 * (0, 0, 1, 3, 5, 12, 40)[number % 7]
            self.context.conversations._put(row)


def pages(stage: Stage) -> Iterator[tuple[str, QWidget]]:
    """Every state worth looking at, in order; each is grabbed as soon as it is yielded."""
    context = stage.start()
    window, session = context.window, context.session
    context.placement.read_shape = lambda _path: published_shape("llama-3.1-8b-q4_k_m")
    context.placement.read_machine = lambda: (machine("Ryzen 7 7700X"), True)
    yield "chat-empty", window
    stage.fill_list()
    session.send(QUESTION)
    stage.settle()
    window.chat_page.transcript.verticalScrollBar().setValue(0)
    stage.settle(0.1)
    yield "chat-answer", window
    window.chat_page.transcript.scroll_to_bottom()
    stage.settle(0.1)
    yield "chat-answer-end", window
    session.edit(session.path()[0].id, QUESTION + " Be brief.")
    stage.settle()
    window.chat_page.transcript.verticalScrollBar().setValue(0)
    window.chat_page.transcript.toggle_fold(session.path()[1].id, "thinking")
    stage.settle(0.1)
    yield "chat-version", window
    window.chat_page._act("edit", session.path()[0])
    stage.settle(0.1)
    yield "chat-editing", window
    window.chat_page._cancel_edit()
    assert stage.engine is not None
    stage.engine.answer = TOOL_CALLS
    session.send("What is the weather in Ravenna?")
    stage.settle()
    window.chat_page.transcript.toggle_fold(session.path()[-1].id, "call 0")
    stage.settle(0.1)
    window.chat_page.transcript.scroll_to_bottom()
    stage.settle(0.1)
    yield "chat-tool-call", window
    session.delete(session.path()[-2].id)
    stage.engine.answer = ANSWER
    window.chat_page.picker.open_menu()
    stage.settle(0.1)
    yield "model-menu", _menu(window)
    _menu(window).close()
    assert stage.engine is not None
    stage.engine.answer = None
    window.chat_page.composer.set_text("One more thing, on several lines:\n\n- first\n- second")
    session.send("And now count slowly, please.")
    stage.settle(0.1)
    request = stage.engine.requests()[-1]
    stage.engine.emit(PrefillProgress(request.request_id, 512, 2048))
    stage.settle(0.1)
    yield "chat-reading", window
    stage.engine.begin(request)
    for word in STREAMING.split(" "):
        stage.engine.emit(TokenEvent(request.request_id, word + " "))
    stage.settle(0.8)  # the figures below follow every quarter of a second
    yield "chat-streaming", window
    error = ErrorInfo(
        "ContextOverflowError",
        "The conversation needs 5,210 tokens, and the context holds 4,096.",
        "Nothing was generated and nothing was removed.",
        "Trim the oldest messages, choose a longer context, or shorten the prompt.",
    )
    stage.engine.emit(GenerationFinished(request.request_id, FinishReason.ERROR, stats(40), error))
    stage.settle(0.2)
    yield "chat-error", window
    window.open_palette()
    stage.settle(0.1)
    palette = window.findChild(CommandPalette)
    palette.edit.setText("mo")
    stage.settle(0.1)
    yield "palette", palette
    palette.close()
    shortcuts = ShortcutsDialog(window.commands, window)
    shortcuts.show()
    stage.settle(0.1)
    yield "shortcuts", shortcuts
    shortcuts.close()
    details = AnswerDetails(session.path()[1], session.path(), context.theme, window)
    details.show()
    stage.settle(0.1)
    yield "answer-details", details
    details.close()
    window.sidebar.search.setText("mosaic")
    window.chat_page.composer.set_text("What do these say?")
    for name in ("notes.md", "a-file-with-a-rather-long-name-2026-03-12.py"):
        window.chat_page.attachments.add(Attachment(name, "# Notes"))
    stage.settle(0.4)
    for chip, tokens in zip(window.chat_page.attachments.chips, (160, 5_400), strict=True):
        chip.show_tokens(tokens)
    window.chat_page.attachments._warn()
    stage.settle(0.4)
    yield "search-and-attachments", window
    window.chat_page.attachments.clear()
    window.sidebar.search.clear()
    window.chat_page.parameters_button.setChecked(True)
    session.set_parameters({"temperature": 0.2, "system_prompt": "You are a mason. Answer in one paragraph."})
    window.chat_page.parameters.show_values(session.parameters)
    stage.settle(0.1)
    yield "chat-parameters", window
    window.chat_page.parameters_button.setChecked(False)
    window.show_page("preferences")
    stage.settle(0.1)
    yield "preferences", window
    yield from _more_pages(stage)


def _more_pages(stage: Stage) -> Iterator[tuple[str, QWidget]]:
    yield from chat_pages(stage)
    yield from memory_pages(stage)
    yield from help_pages(stage)
    context = stage.start(name=LONG_NAME, size=(440, 560))
    stage.fill_list()
    context.session.send(QUESTION)
    stage.settle()
    yield "small-window", context.window
    context = stage.start(name=LONG_NAME)
    assert stage.engine is not None
    stage.engine.emit(ModelLoading("/models/" + LONG_NAME.replace(" ", "-") + ".gguf", 0.42, "weights"))
    stage.settle()
    yield "loading-long-name", context.window
    stage.has_model = False
    context = stage.start()
    context.conversations.delete(context.conversations.create("A conversation with a rather long title to delete").id)
    context.window.chat_page.composer.set_text("Hello?")
    context.window.chat_page._send("Hello?")
    stage.settle()
    yield "no-model", context.window
    yield from _library(stage)
    stage.stop()


def _library(stage: Stage) -> Iterator[tuple[str, QWidget]]:
    stage.has_model = False
    yield from library_pages(stage.start(), stage.data.root)


def _menu(window: QWidget) -> QWidget:
    from PySide6.QtWidgets import QMenu

    return next(menu for menu in window.findChildren(QMenu) if menu.isVisible())


def take(folder: Path, scale: int, wanted: list[str]) -> None:
    os.environ["QT_SCALE_FACTOR"] = str(scale)  # read when the application is made
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    hold_singletons()
    application = QApplication([])
    application.setStyle(QStyleFactory.create("Fusion"))
    for language, theme in product(("en", "zh_CN"), ("light", "dark")):
        stage = Stage(application, theme, language)
        left = set(wanted)
        taken = pages
        if wanted and all(name.startswith("memory") for name in wanted):
            taken = memory_pages
        elif wanted and all(name.startswith("library") for name in wanted):
            taken = _library
        elif left and left <= HELP_PAGES:
            taken = help_pages
        elif left and left <= CHAT_PAGES:
            taken = chat_pages
        for name, widget in taken(stage):
            if not wanted or name in wanted:
                widget.grab().save(str(folder / f"{name}-{theme}-{language}-{scale}x.png"))
            left.discard(name)
            if wanted and not left:
                break
        stage.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.screenshots", description="Take pictures of every page.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("build/screenshots"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="of pages, as chat-answer; all where none is given")
    parser.add_argument("--scale", type=int, choices=SCALES, help="the only scale; else both, one after the other")
    arguments = parser.parse_intermixed_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.scale is not None:
        take(folder, arguments.scale, arguments.names)
        return
    for scale in SCALES:  # read once in a process
        command = [sys.executable, "-m", "tests.screenshots", str(folder), "--scale", str(scale), *arguments.names]
        subprocess.run(command, check=True)
    print(f"{len(list(folder.glob('*.png')))} pictures in {folder}")


if __name__ == "__main__":
    main()
