"""The map as a table, for keyboards and screen readers: one line per tensor and expert."""

from __future__ import annotations

from typing import Any

import numpy as np
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from app.placement.map_cells import DISK, GPU, MOVING, RAM, Cell, MapCells, Places
from app.placement.words import gib
from app.translation import tr

Index = QModelIndex | QPersistentModelIndex
PLACE_WORDS = {GPU: "GPU", RAM: "RAM", MOVING: "moving", DISK: "disk"}
_HEADS = ("Name", "Type", "Size", "Place", "Use", "Why")
_NUMBERS = (2, 4)  # columns aligned to the right


class MapTableModel(QAbstractTableModel):
    """`reasons` by item key."""

    def __init__(self) -> None:
        super().__init__()
        self._cells: list[Cell] = []
        self._places: Places | None = None
        self._use: np.ndarray | None = None
        self._reasons: dict[str, str] = {}

    def show_cells(self, cells: MapCells | None) -> None:
        self.beginResetModel()
        self._places = self._use = None
        self._cells = []
        if cells is not None:
            seen = set()
            for row in range(cells.rows):
                for column in range(cells.columns):
                    cell = cells.at(row, column)
                    if cell is not None and cell.name not in seen:
                        seen.add(cell.name)
                        self._cells.append(cell)
        self.endResetModel()

    def show_places(self, places: Places, reasons: dict[str, str], use: np.ndarray | None = None) -> None:
        """`use`: recent uses per cell, decayed; None where nothing is known."""
        self._places, self._reasons, self._use = places, reasons, use
        if self._cells:
            self.dataChanged.emit(self.index(0, 3), self.index(len(self._cells) - 1, 5))

    def cell(self, row: int) -> Cell:
        return self._cells[row]

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        return 0 if parent.isValid() else len(self._cells)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        return 0 if parent.isValid() else len(_HEADS)

    def head(self, column: int) -> str:
        return tr(_HEADS[column])

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
        if role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return None
        return self._words(self._cells[index.row()], index.column())

    def _words(self, cell: Cell, column: int) -> str:
        if column == 0:
            return cell.name
        if column == 1:
            return cell.type_name
        if column == 2:
            return gib(cell.bytes)
        if column == 3:
            return "" if self._places is None else tr(PLACE_WORDS[int(self._places[cell.row, cell.column])])
        if column == 4:
            if cell.expert < 0:
                return tr("every token")
            return "" if self._use is None else f"{self._use[cell.row, cell.column]:.1f}"
        return self._reasons.get(cell.item, "")


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
