"""Discover: a field, a list, and beside it the repository that is chosen."""

from __future__ import annotations

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QLineEdit, QToolButton, QVBoxLayout, QWidget

from app.library.card_controller import CardController
from app.library.card_view import CardView
from app.library.library_controller import LibraryController
from app.library.notice import Notice
from app.library.panes import Panes
from app.library.results_list import ResultsList
from app.library.results_model import ResultRow, ResultsModel, curated_row, found_row
from app.library.search_controller import SearchController
from app.theme.theme import Theme
from app.translation import tr


class DiscoverPage(QWidget):
    hub_settings_requested = Signal()

    def __init__(self, theme: Theme, library: LibraryController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme, self._library = theme, library
        self.search = SearchController(library, self)
        self.card = CardController(library, self)
        self.field = QLineEdit(self)
        self.field.setPlaceholderText(tr("Search, e.g. “qwen 30b”"))
        self.field.setClearButtonEnabled(True)
        self.field.setAccessibleName(tr("Search the hub"))
        self.field.textChanged.connect(self.search.type)
        self.field.returnPressed.connect(self.search.again)
        self.sort = QComboBox(self)
        for value, words in (
            ("downloads", tr("Downloads")),
            ("likes", tr("Likes")),
            ("recent", tr("Newest")),
        ):
            self.sort.addItem(words, value)
        self.sort.setAccessibleName(tr("Order"))
        self.sort.setToolTip(tr("Order"))
        self.sort.currentIndexChanged.connect(lambda: self.search.sort(self.sort.currentData()))
        self.key = QToolButton(self)
        self.key.setObjectName("quiet")
        self.key.setIconSize(QSize(20, 20))
        self.key.setToolTip(tr("Access token and connection…"))
        self.key.setAccessibleName(tr("Access token and connection"))
        self.key.clicked.connect(self.hub_settings_requested)
        self.heading = QLabel(self)
        self.heading.setObjectName("groupTitle")
        self.notice = Notice(self)
        self.model = ResultsModel()
        self.list = ResultsList(theme, self.model, self)
        self.view = CardView(theme, library, self.card, self)
        self.setFocusProxy(self.field)
        self._lay_out()
        self.search.changed.connect(self.show_results)
        self.list.end_reached.connect(self.search.more)
        self.list.chosen.connect(self._chosen)
        library.ready.connect(self.show_results)
        theme.changed.connect(self._apply_theme)
        self._apply_theme()
        self.show_results()

    def _lay_out(self) -> None:
        left = QWidget(self)
        column = QVBoxLayout(left)
        column.setContentsMargins(24, 4, 8, 0)
        column.setSpacing(8)
        line = QHBoxLayout()
        line.setSpacing(8)
        line.addWidget(self.field, 1)
        line.addWidget(self.sort)
        line.addWidget(self.key)
        column.addLayout(line)
        column.addWidget(self.heading)
        column.addWidget(self.notice)
        column.addWidget(self.list, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(Panes(left, self.view, (430, 440), self))

    def show_results(self) -> None:
        search, services = self.search, self._library.services
        if not search.text:
            rows = [curated_row(model) for model in services.catalogue] if services is not None else []
            self.heading.setText(tr("A good start"))
            self.notice.hide()
        else:
            rows = [found_row(found) for found in search.rows]
            self.heading.setText(self._count_words(len(rows)) if rows or search.is_searching else "")
            if search.error is not None:
                self.notice.show_error(search.error, search.again)
            elif not rows and search.is_finished:
                self.notice.show_words(tr("Nothing on the hub is called like that."))
            else:
                self.notice.hide()
        self.heading.setVisible(bool(self.heading.text()))
        self.model.show(rows)

    def _count_words(self, count: int) -> str:
        if self.search.is_searching:
            return tr("Searching…")
        if self.search.is_finished:
            return tr("{count} repositories", count=count)
        return tr("The first {count} repositories", count=count)

    def _chosen(self, row: ResultRow) -> None:
        self.card.open(row.repository, row.wanted_file)

    def _apply_theme(self) -> None:
        self.key.setIcon(self._theme.icon("key"))
