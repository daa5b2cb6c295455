"""The real window, offscreen, with an engine that plays scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.chat_page import ChatPage
from app.chat.session import ChatSession
from app.context import AppContext
from app.crash import CrashHandler
from app.environment import DataFolder
from app.main_window import MainWindow
from app.none_guard import hold_singletons
from tests.support.scripted_engine import ScriptedEngine, model_info

hold_singletons()


@dataclass(slots=True)
class Started:
    """A running application and the engine behind it."""

    context: AppContext
    engine: ScriptedEngine

    @property
    def window(self) -> MainWindow:
        return self.context.window

    @property
    def page(self) -> ChatPage:
        return self.context.window.chat_page

    @property
    def session(self) -> ChatSession:
        return self.context.session


@pytest.fixture
def data_folder(tmp_path: Path) -> DataFolder:
    folder = DataFolder(tmp_path / "data")
    folder.models.mkdir(parents=True)
    (folder.models / "Scripted-1B.Q4_K_M.gguf").write_bytes(b"GGUF")
    return folder


@pytest.fixture
def start(qapp: QApplication, qtbot: QtBot, data_folder: DataFolder) -> Iterator[Callable[..., Started]]:
    """Start the application on `data_folder`, as often as a test wants to."""
    running: list[AppContext] = []

    def make(prepare: Callable[[ScriptedEngine], None] | None = None, *, wait_for_model: bool = True) -> Started:
        engines: list[ScriptedEngine] = []

        def factory(on_event):
            engines.append(ScriptedEngine(on_event))
            engines[-1].info = model_info(str(data_folder.models / "Scripted-1B.Q4_K_M.gguf"))
            if prepare is not None:
                prepare(engines[-1])
            return engines[-1]

        context = AppContext(qapp, data_folder, CrashHandler(data_folder.logs), factory)
        running.append(context)
        context.window.show()
        qtbot.waitUntil(lambda: bool(engines))
        if wait_for_model:
            qtbot.waitUntil(lambda: context.models.info is not None)
        return Started(context, engines[0])

    yield make
    for context in running:
        context.close()
        context.window.close()
        context.window.deleteLater()
    qapp.processEvents()


@pytest.fixture
def app(start: Callable[..., Started]) -> Started:
    return start()
