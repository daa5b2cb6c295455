"""One box that reaches everything: commands, conversations, models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QDialog,
    QListWidget,
    QListWidgetItem,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from app.line_edit import LineEdit
from app.theme.theme import Theme
from app.translation import tr

SHOWN = 60


@dataclass(frozen=True, slots=True)
class Entry:
    title: str
    hint: str
    run: Callable[[], None]


def score(query: str, title: str) -> int | None:
    """How well `title` answers `query` (smaller is better), or None where letters are missing."""
    query, title = query.lower(), title.lower()
    if not query:
        return 0
    at = title.find(query)
    if at >= 0:
        return at
    place = gaps = 0
    for letter in query:
        if letter == " ":
            continue
        found = title.find(letter, place)
        if found < 0:
            return None
        gaps += found - place
        place = found + 1
    return 1000 + gaps


def matching(entries: list[Entry], query: str) -> list[Entry]:
    """Best first; equally good ones keep their order."""
    scored = [(score(query, entry.title), number) for number, entry in enumerate(entries)]
    found = sorted((points, number) for points, number in scored if points is not None)
    return [entries[number] for _, number in found[:SHOWN]]


class _EntryDelegate(QStyledItemDelegate):
    """The title at the left, and quietly at the right its keys or what it is."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        entry: Entry = index.data(Qt.ItemDataRole.UserRole)
        self.initStyleOption(option, index)
        option.text = ""
        option.widget.style().drawControl(QStyle.ControlElement.CE_ItemViewItem, option, painter, option.widget)
        painter.save()
        where = option.rect.adjusted(12, 0, -12, 0)
        painter.setFont(self._theme.font(self._theme.type.small))
        painter.setPen(self._theme.color("muted"))
        middle = Qt.AlignmentFlag.AlignVCenter
        hint = painter.boundingRect(where, int(middle | Qt.AlignmentFlag.AlignRight), entry.hint)
        painter.drawText(where, int(middle | Qt.AlignmentFlag.AlignRight), entry.hint)
        painter.setFont(option.font)
        painter.setPen(self._theme.color("text"))
        room = where.width() - hint.width() - 24
        title = painter.fontMetrics().elidedText(entry.title, Qt.TextElideMode.ElideRight, room)
        painter.drawText(where, int(middle | Qt.AlignmentFlag.AlignLeft), title)
        painter.restore()


class CommandPalette(QDialog):
    def __init__(self, entries: list[Entry], theme: Theme, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setObjectName("palette")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAccessibleName(tr("Command palette"))
        self._entries = entries
        self.edit = LineEdit(self)
        self.edit.setPlaceholderText(tr("Type a command, a conversation or a model"))
        self.edit.setAccessibleName(tr("Command"))
        self.list = QListWidget(self)
        self.list.setObjectName("plainList")
        self.list.setAccessibleName(tr("Found"))
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setItemDelegate(_EntryDelegate(theme, self.list))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 10, 10, 10)
        layout.setSpacing(8)
        layout.addWidget(self.edit)
        layout.addWidget(self.list)
        width = min(560, parent.width() - 40)
        self.resize(width, min(420, parent.height() - 120))
        self.move(parent.mapToGlobal(parent.rect().topLeft()).x() + (parent.width() - width) // 2, parent.y() + 90)
        self.edit.textChanged.connect(self._show)
        self.edit.returnPressed.connect(self._run)
        self.edit.installEventFilter(self)
        self.list.itemClicked.connect(lambda _item: self._run())
        self.list.currentItemChanged.connect(self._announce)
        self._show("")

    def showEvent(self, event: QEvent) -> None:
        super().showEvent(event)
        self.edit.setFocus()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Up and Down move through the list while the box keeps the keyboard."""
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress and not self.edit.is_composing:
            step = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(Qt.Key(event.key()))
            if step is not None and self.list.count():
                self.list.setCurrentRow((self.list.currentRow() + step) % self.list.count())
                return True
        return super().eventFilter(watched, event)

    def _show(self, query: str) -> None:
        self.list.clear()
        for entry in matching(self._entries, query.strip()):
            item = QListWidgetItem(entry.title)
            item.setData(
                Qt.ItemDataRole.AccessibleTextRole, f"{entry.title}, {entry.hint}" if entry.hint else entry.title
            )
            item.setData(Qt.ItemDataRole.UserRole, entry)
            self.list.addItem(item)
        self.list.setCurrentRow(0)

    def _announce(self, item: QListWidgetItem | None) -> None:
        """Tell screen readers what Return would do: the list itself never has the keyboard."""
        if item is not None and QAccessible.isActive():
            words = item.data(Qt.ItemDataRole.AccessibleTextRole)
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self.edit, words))

    def _run(self) -> None:
        item = self.list.currentItem()
        if item is not None:
            entry: Entry = item.data(Qt.ItemDataRole.UserRole)
            self.close()
            entry.run()
