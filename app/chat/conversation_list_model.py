"""The sidebar's rows: conversations under the headings of their dates."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass

from PySide6.QtCore import QAbstractListModel, QDate, QLocale, QModelIndex, QPersistentModelIndex, Qt, Signal

from app.chat.search import Hit
from app.store.records import Conversation
from app.translation import tr

ID_ROLE = Qt.ItemDataRole.UserRole + 1
HEADING_ROLE = Qt.ItemDataRole.UserRole + 2
EXCERPT_ROLE = Qt.ItemDataRole.UserRole + 3
MESSAGE_ROLE = Qt.ItemDataRole.UserRole + 4
PINNED_ROLE = Qt.ItemDataRole.UserRole + 5

Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True, slots=True)
class Heading:
    text: str


def grouped(conversations: Iterable[Conversation], now: datetime.datetime) -> list[Heading | Conversation]:
    """Rows in their order, a heading before each new group."""
    rows: list[Heading | Conversation] = []
    last = ""
    for conversation in conversations:
        name = group_name(conversation, now)
        if name != last:
            rows.append(Heading(name))
            last = name
        rows.append(conversation)
    return rows


def group_name(conversation: Conversation, now: datetime.datetime) -> str:
    if conversation.pinned:
        return tr("Pinned")
    if conversation.folder:
        return conversation.folder
    day = datetime.datetime.fromtimestamp(conversation.updated_at).date()
    days = (now.date() - day).days
    if days <= 0:
        return tr("Today")
    if days == 1:
        return tr("Yesterday")
    if days < 7:
        return tr("Previous 7 days")
    if days < 30:
        return tr("Previous 30 days")
    language = QLocale(tr("en"))  # a translation puts its own code here, for the names of the months
    return language.toString(QDate(day.year, day.month, 1), tr("MMMM yyyy"))


class ConversationListModel(QAbstractListModel):
    """Read-only but for the title, which can be edited in place."""

    renamed = Signal(str, str)  # id, title

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[Heading | Conversation] = []
        self._hits: dict[str, Hit] = {}

    def set_hits(self, hits: list[Hit]) -> None:
        """Show what a search found instead of everything."""
        words = tr("Found") if hits else tr("Nothing found")
        self.beginResetModel()
        self._hits = {hit.conversation.id: hit for hit in hits}
        self._rows = [Heading(words), *(hit.conversation for hit in hits)]
        self.endResetModel()

    def set_conversations(self, conversations: Iterable[Conversation]) -> None:
        rows = grouped(conversations, datetime.datetime.now())
        if not self._hits and [_key(row) for row in rows] == [_key(row) for row in self._rows]:
            self._rows = rows
            self.dataChanged.emit(self.index(0), self.index(max(0, len(rows) - 1)))
            return
        self.beginResetModel()
        self._rows, self._hits = rows, {}
        self.endResetModel()

    def row_of(self, conversation_id: str | None) -> int:
        for number, row in enumerate(self._rows):
            if isinstance(row, Conversation) and row.id == conversation_id:
                return number
        return -1

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        row = self._rows[index.row()]
        if isinstance(row, Heading):
            return row.text if role in (Qt.ItemDataRole.DisplayRole, HEADING_ROLE) else None
        match role:
            case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.EditRole | Qt.ItemDataRole.ToolTipRole:
                return row.title or tr("New conversation")
            case _ if role == ID_ROLE:
                return row.id
            case _ if role == PINNED_ROLE:
                return row.pinned
            case _ if role == EXCERPT_ROLE and row.id in self._hits:
                return self._hits[row.id].excerpt
            case _ if role == MESSAGE_ROLE and row.id in self._hits:
                return self._hits[row.id].message_id
        return None

    def setData(self, index: Index, value: object, role: int = Qt.ItemDataRole.EditRole) -> bool:
        row = self._rows[index.row()]
        if role != Qt.ItemDataRole.EditRole or isinstance(row, Heading) or not str(value).strip():
            return False
        self.renamed.emit(row.id, str(value))
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        if isinstance(self._rows[index.row()], Heading):
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable


def _key(row: Heading | Conversation) -> str:
    return row.text if isinstance(row, Heading) else row.id
