"""The library: three pages under one title — my models, discover, downloads."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QStackedWidget, QVBoxLayout, QWidget

from app.elided_label import ElidedLabel
from app.library.discover_page import DiscoverPage
from app.library.downloads_page import DownloadsPage
from app.library.hub_dialog import HubDialog
from app.library.library_controller import LibraryController
from app.library.models_page import ModelsPage
from app.theme.theme import Theme
from app.translation import tr


class LibraryPage(QWidget):
    model_chosen = Signal()  # a model was sent to be loaded: the conversation is the place to be

    def __init__(self, theme: Theme, library: LibraryController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("page")
        self._theme, self._library = theme, library
        self._factories: dict[str, Callable[[], QWidget]] = {
            "models": self._make_models,
            "discover": self._make_discover,
            "downloads": lambda: DownloadsPage(theme, library, self),
        }
        self.pages: dict[str, QWidget] = {}
        self.tabs: dict[str, QPushButton] = {}
        title = QLabel(tr("Library"), self)
        title.setObjectName("pageTitle")
        head = QHBoxLayout()
        head.setContentsMargins(24, 22, 24, 8)
        head.setSpacing(4)
        head.addWidget(title)
        head.addSpacing(16)
        for key, words in (("models", tr("My models")), ("discover", tr("Discover")), ("downloads", tr("Downloads"))):
            tab = QPushButton(words, self)
            tab.setObjectName("tab")
            tab.setCheckable(True)
            tab.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            tab.clicked.connect(lambda _=False, key=key: self.show_tab(key))
            head.addWidget(tab)
            self.tabs[key] = tab
        self.progress = ElidedLabel(self)
        self.progress.setObjectName("settingHelp")
        self.progress.setAlignment(Qt.AlignmentFlag.AlignRight)
        head.addWidget(self.progress, 1)
        self.stack = QStackedWidget(self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(head)
        layout.addWidget(self.stack, 1)
        library.downloads.progress_changed.connect(self.progress.show_line)
        library.start()
        QGuiApplication.instance().applicationStateChanged.connect(self._look_again)
        self.show_tab("models")

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._library.refresh()

    def _look_again(self, state: Qt.ApplicationState) -> None:
        """The owner may come back from a file manager."""
        if state is Qt.ApplicationState.ApplicationActive and self.isVisible():
            self._library.refresh()

    def show_tab(self, key: str) -> QWidget:
        """A page is made when it is first shown."""
        if key not in self.pages:
            self.pages[key] = self._factories[key]()
            self.stack.addWidget(self.pages[key])
        self.stack.setCurrentWidget(self.pages[key])
        for name, tab in self.tabs.items():  # no button group: it would take all but one out of the Tab order
            tab.setChecked(name == key)
        self.pages[key].setFocus()
        return self.pages[key]

    def _make_models(self) -> QWidget:
        page = ModelsPage(self._theme, self._library, self)
        page.loaded.connect(self.model_chosen)
        page.discover_requested.connect(lambda: self.show_tab("discover"))
        return page

    def _make_discover(self) -> QWidget:
        page = DiscoverPage(self._theme, self._library, self)
        page.hub_settings_requested.connect(self.open_hub_dialog)
        return page

    def open_hub_dialog(self) -> None:
        if self._library.services is not None:
            HubDialog(self._theme, self._library, self).open()
