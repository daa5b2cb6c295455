"""The sidebar: a new conversation, the list of them, and the way to the other pages."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QMenu,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.chat.conversation_list import ConversationList
from app.chat.conversation_list_model import ConversationListModel
from app.menu import open_below
from app.theme.theme import Theme
from app.translation import tr


class Sidebar(QFrame):
    new_requested = Signal()
    hide_requested = Signal()
    action_requested = Signal(str)  # "import", "export_all", "trash"
    page_requested = Signal(str)

    def __init__(self, theme: Theme, model: ConversationListModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sidebar")
        self._theme = theme
        self._page_buttons: dict[str, tuple[QToolButton, str]] = {}
        self.mark = QLabel(self)
        self.mark.setFixedSize(24, 24)
        name = QLabel("Tessera", self)
        name.setObjectName("appName")
        self.new_button = QPushButton(tr("New conversation"), self)
        self.new_button.setObjectName("newConversation")
        self.new_button.setIconSize(QSize(18, 18))
        self.new_button.clicked.connect(self.new_requested)
        self.search = QLineEdit(self)
        self.search.setObjectName("search")
        self.search.setPlaceholderText(tr("Search"))
        self.search.setAccessibleName(tr("Search all conversations"))
        self.search.setClearButtonEnabled(True)
        self._search_icon = self.search.addAction(theme.icon("search"), QLineEdit.ActionPosition.LeadingPosition)
        self.list = ConversationList(theme, model, self)
        head = QHBoxLayout()
        head.setContentsMargins(8, 4, 4, 10)
        head.setSpacing(9)
        head.addWidget(self.mark)
        head.addWidget(name)
        head.addStretch(1)
        self.menu_button = QToolButton(self)
        self.menu_button.setObjectName("quiet")
        self.menu_button.setIconSize(QSize(18, 18))
        self.menu_button.setToolTip(tr("Import, export, trash"))
        self.menu_button.setAccessibleName(tr("Import, export, trash"))
        self.menu_button.clicked.connect(self._open_menu)
        head.addWidget(self.menu_button)
        self.hide_button = QToolButton(self)
        self.hide_button.setObjectName("quiet")
        self.hide_button.setIconSize(QSize(18, 18))
        self.hide_button.setToolTip(tr("Hide the sidebar"))
        self.hide_button.setAccessibleName(tr("Hide the sidebar"))
        self.hide_button.clicked.connect(self.hide_requested)
        head.addWidget(self.hide_button)
        self._pages = QHBoxLayout()
        self._pages.setContentsMargins(2, 6, 2, 0)
        self._pages.setSpacing(4)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 12, 10, 10)
        layout.setSpacing(4)
        layout.addLayout(head)
        layout.addWidget(self.new_button)
        layout.addWidget(self.search)
        layout.addWidget(self.list, 1)
        layout.addLayout(self._pages)
        theme.changed.connect(self._apply_theme)
        self._apply_theme()

    def add_page(self, key: str, title: str, icon: str) -> None:
        button = QToolButton(self)
        button.setObjectName("page")
        button.setCheckable(True)
        button.setIconSize(QSize(20, 20))
        button.setToolTip(title)
        button.setAccessibleName(title)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(lambda: self.page_requested.emit(key))
        self._pages.addWidget(button)
        self._page_buttons[key] = (button, icon)
        self._apply_theme()

    def build_menu(self) -> QMenu:
        menu = QMenu(self)
        menu.addAction(tr("Import conversations…"), lambda: self.action_requested.emit("import"))
        menu.addAction(tr("Export all conversations…"), lambda: self.action_requested.emit("export_all"))
        menu.addSeparator()
        menu.addAction(self._theme.icon("trash"), tr("Trash…"), lambda: self.action_requested.emit("trash"))
        return menu

    def _open_menu(self) -> None:
        open_below(self.build_menu(), self.menu_button)

    def finish_pages(self) -> None:
        self._pages.addStretch(1)

    def show_page(self, key: str) -> None:
        """Mark the page. No button group: it would take all but one button out of the Tab order."""
        for name, (button, _) in self._page_buttons.items():
            button.setChecked(name == key)

    def _apply_theme(self) -> None:
        theme = self._theme
        self.mark.setPixmap(theme.icon("tessera").pixmap(QSize(24, 24), self.devicePixelRatioF()))
        self.new_button.setIcon(theme.icon("plus", "text"))
        self.hide_button.setIcon(theme.icon("sidebar"))
        self.menu_button.setIcon(theme.icon("more"))
        self._search_icon.setIcon(theme.icon("search"))
        for button, icon in self._page_buttons.values():
            button.setIcon(theme.icon(icon, "muted"))
