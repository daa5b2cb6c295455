"""The trash: what was deleted, with a way back and a way out."""

from __future__ import annotations

import datetime

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.chat.conversations import Conversations
from app.store.records import Conversation
from app.translation import tr


class TrashDialog(QDialog):
    def __init__(self, rows: list[Conversation], conversations: Conversations, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Trash"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(520, 420)
        self._conversations = conversations
        self._words = QLabel(self)
        self.list = QListWidget(self)
        self.list.setObjectName("plainList")
        self.list.setAccessibleName(tr("Deleted conversations"))
        self.list.setSelectionMode(QListWidget.SelectionMode.ExtendedSelection)
        for row in rows:
            day = datetime.datetime.fromtimestamp(row.deleted_at or 0).strftime("%Y-%m-%d")
            item = QListWidgetItem(f"{row.title or tr('New conversation')}   ·   {day}")
            item.setData(Qt.ItemDataRole.UserRole, row)
            self.list.addItem(item)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        self.restore = QPushButton(tr("Restore"), self)
        self.purge = QPushButton(tr("Delete for good"), self)
        buttons.addButton(self.restore, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.addButton(self.purge, QDialogButtonBox.ButtonRole.DestructiveRole)
        self.restore.clicked.connect(self._restore)
        self.purge.clicked.connect(self._purge)
        buttons.rejected.connect(self.reject)
        self.list.itemSelectionChanged.connect(self._update)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 18, 20, 16)
        layout.setSpacing(12)
        layout.addWidget(self._words)
        layout.addWidget(self.list)
        layout.addWidget(buttons)
        self._update()

    def _take(self) -> list[Conversation]:
        """The selected rows, out of the list."""
        rows = []
        for item in self.list.selectedItems():
            rows.append(item.data(Qt.ItemDataRole.UserRole))
            self.list.takeItem(self.list.row(item))
        self._update()
        return rows

    def _restore(self) -> None:
        for row in self._take():
            self._conversations.take_back(row)

    def _purge(self) -> None:
        for row in self._take():
            self._conversations.purge(row.id)

    def _update(self) -> None:
        some = bool(self.list.selectedItems())
        self.restore.setEnabled(some)
        self.purge.setEnabled(some)
        full = self.list.count() > 0
        self._words.setText(tr("Deleted conversations are kept here.") if full else tr("The trash is empty."))
