"""The conversations of the sidebar: new, rename, delete with undo. What is shown is what is stored."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.chat.exchange import Bundle, renewed
from app.store.records import Conversation, new_id
from app.store.store_thread import StoreThread
from app.translation import tr

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
        return sorted(rows, key=lambda row: (not row.pinned, not row.folder, row.folder, -row.updated_at))

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

    def toggle_pin(self, conversation_id: str) -> None:
        row = self._rows[conversation_id]
        row.pinned = not row.pinned
        self._put(row)

    def folders(self) -> list[str]:
        return sorted({row.folder for row in self._rows.values() if row.folder and row.deleted_at is None})

    def move(self, conversation_id: str, folder: str) -> None:
        """Into a folder; an empty name takes it out."""
        row = self._rows[conversation_id]
        row.folder = " ".join(folder.split())
        self._put(row)

    def add(self, bundles: list[Bundle]) -> None:
        """Conversations that come with their messages: copies and imports."""
        for bundle in bundles:
            messages = bundle.messages
            self._put(bundle.conversation)
            self._store.call(lambda store, messages=messages: store.put_messages(messages))

    def bundle(self, conversation_id: str, on_done: Callable[[Bundle], None]) -> None:
        """A conversation with all its messages."""
        row = self._rows[conversation_id]
        self._store.call(lambda store: store.messages(row.id), lambda messages: on_done(Bundle(row, messages)))

    def duplicate(self, conversation_id: str) -> None:
        def done(bundle: Bundle) -> None:
            title = tr("{title} (copy)", title=bundle.conversation.title)
            copy = renewed(bundle, title)
            copy.conversation.updated_at = time.time()
            self.add([copy])

        self.bundle(conversation_id, done)

    def trash(self, on_done: Callable[[list[Conversation]], None]) -> None:
        """What lies in the trash, newest first."""
        self._store.call(lambda store: store.conversations(deleted=True), on_done)

    def purge(self, conversation_id: str) -> None:
        """Out of the trash, for good."""
        self._rows.pop(conversation_id, None)
        self._store.call(lambda store: store.purge(conversation_id))

    def empty_trash(self, days: int) -> None:
        """Remove for good what has been in the trash for so many days."""
        before = time.time() - days * 86_400
        self._store.call(lambda store: store.empty_trash(before))

    def take_back(self, row: Conversation) -> None:
        """Out of the trash, back into the list."""
        self._rows[row.id] = row
        self.restore(row.id)

    def set_parameters(self, conversation_id: str, parameters: dict[str, Any]) -> None:
        row = self._rows[conversation_id]
        row.parameters = parameters
        self._put(row)

    def delete(self, conversation_id: str) -> None:
        """Into the trash; `restore` brings it back."""
        row = self._rows[conversation_id]
        row.deleted_at = time.time()
        self._put(row)
        self.deleted.emit(row)

    def restore(self, conversation_id: str) -> bool:
        """Whether it was still there: what has been deleted for good does not come back."""
        row = self._rows.get(conversation_id)
        if row is None:
            return False
        row.deleted_at = None
        self._put(row)
        return True

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
