"""The conversations of the sidebar: new, rename, delete with undo. What is shown is what is stored."""

from __future__ import annotations

import time

from PySide6.QtCore import QObject, Signal

from app.store.records import Conversation, new_id
from app.store.store_thread import StoreThread

TITLE_LENGTH = 60


class Conversations(QObject):
    """All conversations that are not in the trash, newest first."""

    changed = Signal()
    loaded = Signal()
    deleted = Signal(object)  # Conversation; offer to undo

    def __init__(self, store: StoreThread, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._rows: dict[str, Conversation] = {}

    def load(self) -> None:
        def done(rows: list[Conversation]) -> None:
            self._rows = {row.id: row for row in rows} | self._rows
            self.changed.emit()
            self.loaded.emit()

        self._store.call(lambda store: store.conversations(), done)

    def rows(self) -> list[Conversation]:
        rows = [row for row in self._rows.values() if row.deleted_at is None]
        return sorted(rows, key=lambda row: (not row.pinned, -row.updated_at))

    def get(self, conversation_id: str) -> Conversation | None:
        return self._rows.get(conversation_id)

    def create(self, first_message: str) -> Conversation:
        """A new conversation, titled with the beginning of its first message."""
        conversation = Conversation(new_id(), title=title_from(first_message), titled_by="first message")
        self._put(conversation)
        return conversation

    def rename(self, conversation_id: str, title: str, *, by: str = "owner") -> None:
        row = self._rows[conversation_id]
        title = " ".join(title.split())
        if title and title != row.title:
            row.title, row.titled_by = title, by
            self._put(row)

    def touch(self, conversation_id: str) -> None:
        row = self._rows[conversation_id]
        row.updated_at = time.time()
        self._put(row)

    def delete(self, conversation_id: str) -> None:
        """Into the trash; `restore` brings it back."""
        row = self._rows[conversation_id]
        row.deleted_at = time.time()
        self._put(row)
        self.deleted.emit(row)

    def restore(self, conversation_id: str) -> None:
        row = self._rows[conversation_id]
        row.deleted_at = None
        self._put(row)

    def _put(self, row: Conversation) -> None:
        self._rows[row.id] = row
        copy = Conversation(**{name: getattr(row, name) for name in Conversation.__slots__})
        self._store.call(lambda store: store.put_conversation(copy))
        self.changed.emit()


def title_from(text: str) -> str:
    """The first line of `text`, shortened at a word."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = " ".join(line.split())
    if len(line) <= TITLE_LENGTH:
        return line
    cut = line[:TITLE_LENGTH]
    return (cut[: cut.rfind(" ")] if " " in cut[20:] else cut).rstrip(" ,.;:") + "…"
