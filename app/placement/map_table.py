"""The map as a table, for keyboards and screen readers: one line per tensor and expert."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from app.placement.map_cells import Cell
from app.placement.map_lines import HEADS, MapText
from app.translation import tr

Index = QModelIndex | QPersistentModelIndex
_NUMBERS = (2, 4)  # columns aligned to the right


class MapTableModel(QAbstractTableModel):
    """Knows how many lines there are, and makes the words of those that are looked at."""

    def __init__(self) -> None:
        super().__init__()
        self._text: MapText | None = None

    def show_text(self, text: MapText | None) -> None:
        before, self._text = self._text, text
        if text is None or before is None or before.lines is not text.lines:
            self.beginResetModel()
            self.endResetModel()
        elif len(text.lines):
            self.dataChanged.emit(self.index(0, 3), self.index(len(text.lines) - 1, 5))

    def cell(self, row: int) -> Cell:
        assert self._text is not None
        return self._text.lines[row]

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        return 0 if parent.isValid() or self._text is None else len(self._text.lines)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        return 0 if parent.isValid() else len(HEADS)

    def head(self, column: int) -> str:
        return tr(HEADS[column])

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation != Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self.head(section)
        if role == Qt.ItemDataRole.TextAlignmentRole and section in _NUMBERS:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column() in _NUMBERS:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if self._text is None or role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return None
        return self._text.words(self._text.lines[index.row()], index.column())


class MapTable(QTableView):
    cell_pressed = Signal(object, object)  # Cell, and where on the screen
    cell_changed = Signal(object)  # the current line's Cell, or None

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("modelsTable")
        self.rows = MapTableModel()
        self.setModel(self.rows)
        self.setAccessibleName(tr("Tensors and experts"))
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.activated.connect(self._activated)
        self.selectionModel().currentChanged.connect(self._current_changed)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.verticalHeader().setDefaultSectionSize(28)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        self.horizontalHeader().setStretchLastSection(True)
        self.horizontalHeader().setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        for column, width in enumerate((196, 112, 78, 64, 118)):
            self.setColumnWidth(column, width)
        self.setFixedHeight(400)

    def _current_changed(self, index: Index) -> None:
        self.cell_changed.emit(self.rows.cell(index.row()) if index.isValid() else None)

    def _activated(self, index: Index) -> None:
        at = self.viewport().mapToGlobal(self.visualRect(index).bottomLeft())
        self.cell_pressed.emit(self.rows.cell(index.row()), at)
