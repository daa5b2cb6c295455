"""The pages of the window, each made when it is first shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.background import Background
from app.chat.chat_page import ChatPage
from app.library.library_controller import LibraryController
from app.model_controller import ModelController
from app.placement.placement_controller import PlacementController
from app.problems import Problems
from app.settings.values import Settings
from app.telemetry.telemetry_feed import TelemetryFeed
from app.theme.theme import Theme

if TYPE_CHECKING:
    from app.environment import DataFolder
    from app.help.help_page import HelpPage

BEHIND_SETTINGS = ("doctor", "logs", "gpu", "updates")  # pages that are reached from the settings


class WindowPages(QObject):
    """In `stack`. They ask for each other, and for a conversation to begin."""

    requested = Signal(str)  # key of a page
    conversation_requested = Signal()
    discover_requested = Signal(str)  # words to search the hub for

    def __init__(
        self,
        stack: QStackedWidget,
        chat: ChatPage,
        theme: Theme,
        settings: Settings,
        models: ModelController,
        library: LibraryController,
        placement: PlacementController,
        telemetry: TelemetryFeed,
        problems: Problems,
        background: Background,
        folder: DataFolder,
    ) -> None:
        super().__init__(stack)
        self._stack = stack
        self._theme = theme
        self._settings = settings
        self._models = models
        self._library = library
        self._placement = placement
        self._telemetry = telemetry
        self._problems = problems
        self._background = background
        self._folder = folder
        self._factories = {
            "chat": lambda: chat,
            "library": self._make_library,
            "memory": self._make_memory,
            "preferences": self._make_preferences,
            "doctor": self._make_doctor,
            "logs": self._make_logs,
            "gpu": self._make_gpu,
            "updates": self._make_updates,
            "welcome": self._make_welcome,
        }
        self._pages: dict[str, QWidget] = {}

    def is_made(self, key: str) -> bool:
        return key in self._pages

    def page(self, key: str) -> QWidget:
        if key not in self._pages:
            page = self._factories[key]()
            self._pages[key] = page
            self._stack.addWidget(page)
        return self._pages[key]

    def _make_library(self) -> QWidget:
        from app.library.library_page import LibraryPage

        page = LibraryPage(self._theme, self._library)
        page.model_chosen.connect(self.conversation_requested)
        return page

    def _make_memory(self) -> QWidget:
        from app.placement.placement_page import PlacementPage

        # A child from the start: moved into the window, all of its parts would be styled once more.
        page = PlacementPage(self._theme, self._placement, self._models, self._telemetry, self._problems, self._stack)
        page.library_requested.connect(lambda: self.requested.emit("library"))
        return page

    def _make_preferences(self) -> QWidget:
        from app.preferences.preferences_page import PreferencesPage

        page = PreferencesPage(self._theme, self._settings, self._models)
        page.page_requested.connect(self.requested)
        return page

    def _make_doctor(self) -> QWidget:
        from app.help.doctor_page import DoctorPage

        return self._behind_settings(DoctorPage(self._theme, self._background, self._models.models_folder))

    def _make_logs(self) -> QWidget:
        from app.help.logs_page import LogsPage

        return self._behind_settings(LogsPage(self._theme, self._background, self._folder.logs))

    def _make_gpu(self) -> QWidget:
        from app.help.gpu_page import GpuPage

        return self._behind_settings(GpuPage(self._theme, self._background, self._settings))

    def _make_updates(self) -> QWidget:
        from app.help.updates_page import UpdatesPage
        from app.update_check import UpdateCheck
        from engine.telemetry.doctor import version

        updates = UpdateCheck(self._settings, self._background, self)
        return self._behind_settings(UpdatesPage(self._theme, updates, version()))

    def _make_welcome(self) -> QWidget:
        from app.first_run.first_run_page import FirstRunPage

        page = FirstRunPage(self._theme, self._background, self._folder.root)
        page.begin_requested.connect(self.conversation_requested)
        page.file_chosen.connect(self._load_and_begin)
        page.model_requested.connect(self.discover_requested)
        self._models.models_found.connect(page.show_models)
        if self._models.models:
            page.show_models(self._models.models)
        return page

    def _load_and_begin(self, path: str) -> None:
        self._models.load(path)
        self.conversation_requested.emit()

    def _behind_settings(self, page: HelpPage) -> QWidget:
        page.back_requested.connect(lambda: self.requested.emit("preferences"))
        return page
