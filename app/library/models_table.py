"""The table of models on this machine: one row per model, sortable by every column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QSortFilterProxyModel, Qt, Signal
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QAbstractItemView, QFrame, QHeaderView, QTableView, QWidget

from app.library.entry_words import MOODS, context_words, family_words, last_used_words, state_words, title_words
from app.model_files import format_bytes
from app.theme.theme import Theme
from app.translation import engine_text, tr

if TYPE_CHECKING:
    from engine.hub.library import LibraryEntry

Index = QModelIndex | QPersistentModelIndex
EntryRole = Qt.ItemDataRole.UserRole
SortRole = Qt.ItemDataRole.UserRole + 1
NAME, FAMILY, SIZE, QUANT, CONTEXT, STATE, USED = range(7)
ROW_HEIGHT = 40
WIDTHS = {FAMILY: 96, SIZE: 96, QUANT: 112, CONTEXT: 84, STATE: 148, USED: 100}
NAME_WIDTH = 230
DISPENSABLE = (
    USED,
    CONTEXT,
    FAMILY,
    QUANT,
    SIZE,
)  # in this order they go when the window is narrow; the drawer has them
_COLORS = {"good": "accent", "fair": "warning", "bad": "danger", "quiet": "muted"}


class LibraryTableModel(QAbstractTableModel):
    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._entries: list[LibraryEntry] = []

    def show(self, entries: list[LibraryEntry]) -> None:
        """Rows that stay are updated in place, so that selection and scrolling survive."""
        if [one.path for one in entries] == [one.path for one in self._entries]:
            changed = [row for row, (a, b) in enumerate(zip(entries, self._entries, strict=True)) if a != b]
            self._entries = entries
            for row in changed:
                self.dataChanged.emit(self.index(row, 0), self.index(row, USED))
            return
        self.beginResetModel()
        self._entries = entries
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        return 0 if parent.isValid() else len(self._entries)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        return 0 if parent.isValid() else USED + 1

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if role == Qt.ItemDataRole.DisplayRole and orientation == Qt.Orientation.Horizontal:
            names = ("Name", "Family", "Size", "Quantisation", "Context", "State", "Last used")
            return tr(names[section])
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        entry = self._entries[index.row()]
        column = index.column()
        if role == EntryRole:
            return entry
        if role == SortRole:
            return self._sort_key(entry, column)
        if role == Qt.ItemDataRole.DisplayRole:
            return self._words(entry, column)
        if role == Qt.ItemDataRole.ToolTipRole:
            return "\n".join(words for words in (engine_text(entry.why), str(entry.path)) if words)
        if role == Qt.ItemDataRole.ForegroundRole and column != NAME:
            mood = MOODS[entry.state.name] if column == STATE else "quiet"
            return QColor(getattr(self._theme.colors, _COLORS[mood]))
        return None

    def _words(self, entry: LibraryEntry, column: int) -> str:
        match column:
            case 0:
                return title_words(entry)
            case 1:
                return family_words(entry)
            case 2:
                return format_bytes(entry.size)
            case 3:
                return entry.quantization
            case 4:
                return context_words(entry)
            case 5:
                return state_words(entry)
            case _:
                return last_used_words(entry)

    def _sort_key(self, entry: LibraryEntry, column: int) -> object:
        if column == SIZE:
            return entry.size
        if column == CONTEXT:
            return entry.facts.context_length if entry.facts is not None else 0
        if column == USED:
            return entry.last_used.timestamp() if entry.last_used is not None else 0.0
        return (entry.title if column == NAME else self._words(entry, column)).lower()


class ModelsTable(QTableView):
    chosen = Signal(object)  # LibraryEntry or None
    opened = Signal(object)  # LibraryEntry, by double click or Enter

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("modelsTable")
        self.rows = LibraryTableModel(theme)
        self.proxy = QSortFilterProxyModel(self)
        self.proxy.setSourceModel(self.rows)
        self.proxy.setSortRole(SortRole)
        self.proxy.setFilterCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.proxy.setFilterKeyColumn(NAME)
        self.setModel(self.proxy)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setShowGrid(False)
        self.setSortingEnabled(True)
        self.sortByColumn(NAME, Qt.SortOrder.AscendingOrder)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(ROW_HEIGHT)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setSectionResizeMode(NAME, QHeaderView.ResizeMode.Stretch)
        for column, width in WIDTHS.items():
            self.setColumnWidth(column, width)
        self.setAccessibleName(tr("Models on this machine"))
        self.selectionModel().currentRowChanged.connect(lambda *_: self.chosen.emit(self.current()))
        self.proxy.modelReset.connect(lambda: self.chosen.emit(self.current()))
        self.doubleClicked.connect(lambda index: self.opened.emit(index.data(EntryRole)))

    def resizeEvent(self, event) -> None:
        super().resizeEvent(event)
        left = self.viewport().width() - NAME_WIDTH - sum(WIDTHS.values())
        for column in DISPENSABLE:
            self.setColumnHidden(column, left < 0)
            left += WIDTHS[column] if left < 0 else 0

    def current(self) -> LibraryEntry | None:
        index = self.currentIndex()
        return index.data(EntryRole) if index.isValid() else None

    def select(self, path: object) -> None:
        for row in range(self.proxy.rowCount()):
            if self.proxy.index(row, 0).data(EntryRole).path == path:
                self.selectRow(row)
                return

    def keyPressEvent(self, event) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.current() is not None:
            self.opened.emit(self.current())
            return
        super().keyPressEvent(event)
