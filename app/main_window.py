"""The window: sidebar and pages. It assembles; the controllers decide."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, Qt, QUrl, Signal
from PySide6.QtGui import QCloseEvent, QDesktopServices, QKeySequence, QPaintEvent, QResizeEvent, QShortcut
from PySide6.QtWidgets import QMainWindow, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from app.background import Background
from app.chat.chat_page import ChatPage
from app.chat.conversation_actions import ConversationActions
from app.chat.conversation_list_model import ConversationListModel
from app.chat.conversations import Conversations
from app.chat.parameters.parameters_panel import ParametersPanel
from app.chat.parameters.presets import Presets
from app.chat.search import ConversationSearch, Hit
from app.chat.session import ChatSession
from app.library.library_controller import LibraryController
from app.model_controller import ModelController
from app.notifications import Notifications
from app.placement.placement_controller import PlacementController
from app.problems import Problems
from app.settings.values import Settings
from app.sidebar import Sidebar
from app.store.records import Conversation, Message
from app.telemetry.status_line import StatusLine
from app.telemetry.telemetry_feed import TelemetryFeed
from app.theme.theme import Theme
from app.toast import Toast
from app.translation import tr
from app.window_commands import window_commands
from app.window_pages import BEHIND_SETTINGS, WindowPages
from app.work_notices import WorkNotices

if TYPE_CHECKING:
    from app.environment import DataFolder

NARROW = 680  # pixels; below, the sidebar makes room for the conversation


class MainWindow(QMainWindow):
    first_painted = Signal()
    closing = Signal()

    def __init__(
        self,
        theme: Theme,
        settings: Settings,
        session: ChatSession,
        conversations: Conversations,
        models: ModelController,
        library: LibraryController,
        placement: PlacementController,
        telemetry: TelemetryFeed,
        problems: Problems,
        search: ConversationSearch,
        background: Background,
        presets: Presets,
        folder: DataFolder,
    ) -> None:
        super().__init__()
        self.setWindowTitle("Tessera")
        self.setWindowIcon(theme.icon("tessera"))
        self.setMinimumSize(420, 360)
        self._settings = settings
        self._session = session
        self._conversations = conversations
        self._models = models
        self._theme = theme
        self._library = library
        self._placement = placement
        self._telemetry = telemetry
        self._problems = problems
        self._progress = ""
        self._search = search
        self._background = background
        self._folder = folder
        self._actions = ConversationActions(self, conversations, background, problems)
        self._painted = False
        self._was_narrow = False
        self._list_model = ConversationListModel()
        self.sidebar = Sidebar(theme, self._list_model, self)
        self.chat_page = ChatPage(theme, session, models, problems, presets, background, self)
        self.stack = QStackedWidget(self)
        self.splitter = QSplitter(self)
        self.splitter.setObjectName("splitter")
        self.splitter.setHandleWidth(1)
        self.splitter.addWidget(self.sidebar)
        self.splitter.addWidget(self.stack)
        self.splitter.setStretchFactor(1, 1)
        self.splitter.setCollapsible(1, False)
        self.status = StatusLine(telemetry, models, self)
        self.status.clicked.connect(lambda: self.show_page("memory"))
        whole = QWidget(self)
        rows = QVBoxLayout(whole)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.setSpacing(0)
        rows.addWidget(self.splitter, 1)
        rows.addWidget(self.status)
        self.setCentralWidget(whole)
        self.toast = Toast(self, over=self.stack)
        self.pages = WindowPages(
            self.stack,
            self.chat_page,
            theme,
            settings,
            models,
            library,
            placement,
            telemetry,
            problems,
            background,
            folder,
        )
        self.sidebar.add_page("chat", tr("Chat"), "chat")
        self.sidebar.add_page("library", tr("Library"), "library")
        self.sidebar.add_page("memory", tr("Memory"), "memory")
        self.sidebar.add_page("preferences", tr("Settings"), "settings")
        self.sidebar.finish_pages()
        self.notifications = Notifications(self, theme, settings)
        self._work_notices = WorkNotices(self.notifications, session, conversations, library.downloads)
        self.commands = window_commands(self, session, models, self._actions)
        self._connect()
        self._restore_geometry()
        self.show_page("chat")
        self.chat_page.composer.setFocus()

    def page(self, key: str) -> QWidget:
        return self.pages.page(key)

    def show_page(self, key: str) -> None:
        self.stack.setCurrentWidget(self.page(key))
        self.sidebar.show_page("preferences" if key in BEHIND_SETTINGS else key)

    def _add_budget(self, panel: ParametersPanel) -> None:
        from app.placement.small_budget import SmallBudget

        budget = SmallBudget(self._theme, self._placement, panel)
        budget.details_requested.connect(lambda: self.show_page("memory"))
        panel.add_above(budget)

    def _discover(self, words: str) -> None:
        """The library's search for `words`."""
        self.show_page("library")
        discover = self.page("library").show_tab("discover")  # type: ignore[attr-defined]
        discover.field.setText(words)

    def _connect(self) -> None:
        conversations, session, sidebar = self._conversations, self._session, self.sidebar
        self.pages.requested.connect(self.show_page)
        self.pages.conversation_requested.connect(self.focus_composer)
        self.pages.discover_requested.connect(self._discover)
        conversations.changed.connect(self._show_conversations)
        conversations.deleted.connect(self._deleted)
        session.opened.connect(self._show_selected)
        self._library.downloads.progress_changed.connect(self._show_progress)
        self._list_model.renamed.connect(conversations.rename)
        sidebar.new_requested.connect(self.new_conversation)
        sidebar.page_requested.connect(self.show_page)
        sidebar.hide_requested.connect(lambda: self.show_sidebar(False))
        self.chat_page.sidebar_button.clicked.connect(lambda: self.show_sidebar(True))
        sidebar.list.opened.connect(self._open)
        sidebar.list.action_requested.connect(self._actions.run)
        sidebar.action_requested.connect(self._actions.run_for_all)
        sidebar.search.textChanged.connect(self._search.set_query)
        self._search.found.connect(self._show_hits)
        self.chat_page.panel_made.connect(self._add_budget)
        self.chat_page.deleted.connect(self._messages_deleted)
        self.chat_page.picker.folder_requested.connect(self._show_models_folder)
        self.chat_page.empty.pressed.connect(lambda: self._discover(""))
        for command in self.commands:
            if command.keys:
                QShortcut(QKeySequence(command.keys), self, command.run)

    # --- keyboard ---

    def open_palette(self) -> None:
        from app.command_palette import CommandPalette, Entry

        commands = [Entry(command.title, command.keys_text(), command.run) for command in self.commands[1:]]
        conversations = [
            Entry(row.title, tr("conversation"), lambda key=row.id: self._open(key))
            for row in self._conversations.rows()
        ]
        models = [
            Entry(f"{model.name} {model.quantization}".strip(), tr("model"), lambda m=model: self._models.load(m.path))
            for model in self._models.models
        ]
        CommandPalette([*commands, *conversations, *models], self._theme, self).show()

    def show_shortcuts(self) -> None:
        from app.shortcuts_dialog import ShortcutsDialog

        ShortcutsDialog(self.commands, self).open()

    def change_text_size(self, step: int) -> None:
        with contextlib.suppress(ValueError):  # at the limit nothing happens
            self._settings.set("font_size", self._settings["font_size"] + step)

    def switch_theme(self) -> None:
        self._settings.set("theme", "light" if self._theme.name == "dark" else "dark")

    # --- conversations ---

    def new_conversation(self) -> None:
        self._session.new()
        self.focus_composer()

    def focus_composer(self) -> None:
        self.show_page("chat")
        self.chat_page.composer.setFocus()

    def _open(self, conversation_id: str, message_id: str = "") -> None:
        self._session.open(conversation_id, message_id)
        self.show_page("chat")

    def _deleted(self, conversation: Conversation) -> None:
        self._session.stop_in(conversation.id)
        if conversation.id == self._session.conversation_id:
            self._session.new()

        def undo() -> None:
            if self._conversations.restore(conversation.id):
                self._session.open(conversation.id)

        self.toast.show_text(tr("Deleted “{title}”", title=conversation.title), tr("Undo"), undo)

    def _messages_deleted(self, removed: list[Message]) -> None:
        words = tr("Deleted one message") if len(removed) == 1 else tr("Deleted {count} messages", count=len(removed))
        self.toast.show_text(words, tr("Undo"), lambda: self._session.undelete(removed))

    def _show_hits(self, hits: list[Hit] | None) -> None:
        if hits is None:
            self._show_conversations()
        else:
            self._list_model.set_hits(hits)
            self._show_selected()

    def focus_search(self) -> None:
        self.show_sidebar(True)
        self.sidebar.search.setFocus()
        self.sidebar.search.selectAll()

    def _show_conversations(self) -> None:
        if self._search.is_active:
            return
        self._list_model.set_conversations(self._conversations.rows())
        self._show_selected()

    def _show_selected(self) -> None:
        self.sidebar.list.select(self._session.conversation_id)
        row = self._conversations.get(self._session.conversation_id or "")
        title = f"{row.title} — Tessera" if row is not None and row.title else "Tessera"
        self.setWindowTitle(f"{title}  ·  {self._progress}" if self._progress else title)

    def _show_progress(self, text: str) -> None:
        """The downloads' total stands in the title: it is seen on every page, and in the task bar."""
        self._progress = text
        self._show_selected()

    def _show_models_folder(self) -> None:
        folder = self._models.models_folder
        folder.mkdir(parents=True, exist_ok=True)
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))

    # --- window ---

    def _restore_geometry(self) -> None:
        self.resize(1120, 780)
        stored = self._settings["window_geometry"]
        if stored:
            self.restoreGeometry(QByteArray.fromBase64(stored.encode()))
        width = self._settings["sidebar_width"]
        self.splitter.setSizes([width, max(400, self.width() - width)])

    def bring_to_front(self) -> None:
        self.setWindowState((self.windowState() & ~Qt.WindowState.WindowMinimized) | Qt.WindowState.WindowActive)
        self.show()
        self.raise_()
        self.activateWindow()

    def show_sidebar(self, shown: bool) -> None:
        self.sidebar.setVisible(shown)
        self.chat_page.sidebar_button.setVisible(not shown)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A window that becomes narrow gives the sidebar's room to the conversation, and back."""
        super().resizeEvent(event)
        narrow = self.width() < NARROW
        if narrow != self._was_narrow:
            self._was_narrow = narrow
            self.show_sidebar(not narrow)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._painted:
            self._painted = True
            self.first_painted.emit()

    def closeEvent(self, event: QCloseEvent) -> None:
        self._settings.set("window_geometry", bytes(self.saveGeometry().toBase64().data()).decode())
        if self.sidebar.isVisible():
            self._settings.set("sidebar_width", self.sidebar.width())
        self.closing.emit()
        super().closeEvent(event)
