"""All metadata of a file, searchable. It is read when it is asked for, and long values are cut."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSortFilterProxyModel, Qt
from PySide6.QtGui import QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QAbstractItemView, QFrame, QHeaderView, QLineEdit, QTableView, QVBoxLayout, QWidget

from app.translation import error_text, tr

LONGEST = 300


class MetadataTable(QFrame):
    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self.field = QLineEdit(self)
        self.field.setPlaceholderText(tr("Search the metadata"))
        self.field.setClearButtonEnabled(True)
        self.field.setAccessibleName(tr("Search the metadata"))
        self.rows = QStandardItemModel(0, 2, self)
        self.rows.setHorizontalHeaderLabels([tr("Key"), tr("Value")])
        self.proxy = QSortFilterProxyModel(self)
        self.proxy.setSourceModel(self.rows)
        self.proxy.setFilterKeyColumn(-1)
        self.proxy.setFilterCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.view = QTableView(self)
        self.view.setObjectName("metadata")
        self.view.setModel(self.proxy)
        self.view.setFrameShape(QFrame.Shape.NoFrame)
        self.view.setShowGrid(False)
        self.view.setWordWrap(False)
        self.view.verticalHeader().hide()
        self.view.verticalHeader().setDefaultSectionSize(26)
        self.view.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.view.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.Interactive)
        self.view.horizontalHeader().setStretchLastSection(True)
        self.view.horizontalHeader().hide()
        self.view.setColumnWidth(0, 156)
        self.view.setMinimumHeight(220)
        self.view.setAccessibleName(tr("Metadata"))
        self.field.textChanged.connect(self.proxy.setFilterFixedString)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 10, 10, 10)
        layout.setSpacing(8)
        layout.addWidget(self.field)
        layout.addWidget(self.view)
        self.hide()

    def clear(self) -> None:
        self.rows.setRowCount(0)
        self.hide()

    def show_pairs(self, pairs: list[tuple[str, str]]) -> None:
        self.rows.setRowCount(0)
        for key, value in pairs:
            cells = [QStandardItem(key), QStandardItem(value[:LONGEST])]
            cells[1].setToolTip(value[:2000])
            self.rows.appendRow(cells)
        self.setVisible(bool(pairs))


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """Keys and values of a file's header as text; long arrays by their first items. Runs off the main thread."""
    from engine.gguf.shard import Shard

    shard = Shard(path)
    try:
        metadata = shard.header.metadata
        return [(key, _text(metadata, key)) for key in metadata]
    finally:
        shard.close()


def _text(metadata, key: str) -> str:
    try:
        value = metadata[key]
    except Exception as error:
        return error_text(error)
    if isinstance(value, str | int | float):
        return str(value)
    shown = ", ".join(str(value[index]) for index in range(min(8, len(value))))
    return f"[{shown}{', …' if len(value) > 8 else ''}]  ({len(value):,})"
