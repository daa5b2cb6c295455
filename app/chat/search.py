"""Search over titles and everything that was said, while it is typed."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer, Signal

from app.chat.conversations import Conversations
from app.store.conversations import Found
from app.store.records import Conversation
from app.store.store_thread import StoreThread

PAUSE_MS = 120  # without a key before the search begins


@dataclass(frozen=True, slots=True)
class Hit:
    """A conversation that was found; by its title alone, `message_id` is empty."""

    conversation: Conversation
    message_id: str = ""
    excerpt: str = ""


class ConversationSearch(QObject):
    """`found` brings the hits of the last query, or None when nothing is searched for."""

    found = Signal(object)  # list[Hit] | None

    def __init__(self, store: StoreThread, conversations: Conversations, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._conversations = conversations
        self._query = ""
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(PAUSE_MS)
        self._timer.timeout.connect(self._search)

    @property
    def is_active(self) -> bool:
        return bool(self._query)

    def set_query(self, text: str) -> None:
        self._query = text.strip()
        if self._query:
            self._timer.start()
        else:
            self._timer.stop()
            self.found.emit(None)

    def _search(self) -> None:
        query = self._query

        def done(found: list[Found]) -> None:
            if query == self._query:  # nothing else was typed meanwhile
                self.found.emit(hits(self._conversations.rows(), found, query))

        self._store.call(lambda store: store.search(query), done)


def hits(conversations: list[Conversation], found: list[Found], query: str) -> list[Hit]:
    """One hit per conversation, those with the words in their title first."""
    by_id = {conversation.id: conversation for conversation in conversations}
    texts: dict[str, Found] = {}
    for one in found:
        texts.setdefault(one.conversation_id, one)
    titled = [row for row in conversations if query.lower() in row.title.lower()]
    titled_ids = {row.id for row in titled}
    rest = [by_id[key] for key in texts if key in by_id and key not in titled_ids]
    result = []
    for row in [*titled, *rest]:
        text = texts.get(row.id)
        result.append(Hit(row, text.message_id, text.excerpt) if text is not None else Hit(row))
    return result
