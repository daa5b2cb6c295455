"""Reading and writing conversations. One thread at a time; StoreThread is that thread in the application."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from app.store.own_files import OwnFiles
from app.store.records import Conversation, Message, Status
from app.store.schema import back_up, open_database
from app.store.session_copy import SessionCopy

_CONVERSATION = "id, title, titled_by, created_at, updated_at, deleted_at, pinned, folder, parameters"
_MESSAGE = "id, conversation_id, parent_id, role, content, created_at, status, selected, details"


def _upsert(table: str, columns: str) -> str:
    names = columns.split(", ")
    updates = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
    marks = ", ".join("?" * len(names))
    return f"INSERT INTO {table} ({columns}) VALUES ({marks}) ON CONFLICT(id) DO UPDATE SET {updates}"


_PUT_CONVERSATION, _PUT_MESSAGE = _upsert("conversations", _CONVERSATION), _upsert("messages", _MESSAGE)


class Found(NamedTuple):
    """A message that a search found."""

    conversation_id: str
    message_id: str
    excerpt: str


class PutBack(NamedTuple):
    """The conversations file was written anew."""

    other: Path | None  # what lay in its place, and where it lies now


class ConversationStore:
    """The conversations file. Every method is one transaction, and durable once it returns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = open_database(path)
        self._session = SessionCopy()
        self._files: OwnFiles | None = None
        self._mark_interrupted()
        if str(path) != ":memory:":
            self._files = OwnFiles(path)
        self._copy: Path | None = None  # all that the file held, while it is neither open nor in its place again
        self._other: Path | None = None  # what lay in its place, until that is told

    def close(self) -> None:
        self._connection.close()
        if self._files is not None:
            self._files.close()
        self._session.close()

    def take_copy(self) -> None:
        """Copy what the file holds, for the day that another program writes over it. Done before the first change, if
        nobody had the time before. Without room for it the session goes on; so much less can be brought back."""
        if self._files is not None and self._session.is_due and not self._files.are_overwritten:
            with suppress(sqlite3.Error):
                self._session.take(self._connection)
            self._files.remember()

    def put_back(self) -> PutBack | None:
        """What was done where the file had been taken away, replaced or written over: SQLite would go on writing where
        nobody finds it, or among another's pages. What it held is a file again then, and another one in its place is
        kept beside it. None: nothing was to be done. sqlite3.Error, OSError: not yet; nothing is lost."""
        if self._files is None:
            return None
        overwritten = self._files.are_overwritten
        if self._copy is None and self._files.are_here and not overwritten:
            return None
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._copy is None:
            copy = self._path.with_suffix(f"{self._path.suffix}.back")
            if overwritten:
                self._session.write_to(copy)
                self._files.empty_log()
            else:
                back_up(self._connection, copy)
            self._connection.close()  # before the copy is in its place: it removes the logs of the old file, by name
            self._copy = copy
        self._files.close()
        if overwritten or not self._files.are_here:
            self._other = self._files.set_others_aside(overwritten) or self._other
            self._files.remove_logs()
            self._copy.replace(self._path)
            self._files = OwnFiles(self._path)
        self._connection = open_database(self._path)
        self._files, self._copy = OwnFiles(self._path), None
        self._session.close()
        self.take_copy()
        done, self._other = PutBack(self._other), None
        return done

    def _write(self, statement: str, *rows: tuple[Any, ...]) -> None:
        """Run `statement` for each row, as one transaction."""
        self.take_copy()
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(statement, rows)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # a full disk ends it by itself
                self._connection.execute("ROLLBACK")
            raise
        self._session.record(statement, rows)
        if self._files is not None:
            self._files.remember()

    def _mark_interrupted(self) -> None:
        """An answer that was being written when the process ended keeps its text and says so."""
        interrupted = (Status.INTERRUPTED.value, Status.STREAMING.value)
        self._write("UPDATE messages SET status = ? WHERE status = ?", interrupted)

    # --- conversations ---

    def conversations(self, *, deleted: bool = False) -> list[Conversation]:
        """Newest first; `deleted`: what lies in the trash instead."""
        state = "IS NOT NULL" if deleted else "IS NULL"
        rows = self._connection.execute(
            f"SELECT {_CONVERSATION} FROM conversations WHERE deleted_at {state} ORDER BY updated_at DESC"
        )
        return [_conversation(row) for row in rows]

    def put_conversation(self, conversation: Conversation) -> None:
        """Insert, or replace the row of the same id (its messages stay)."""
        self._write(_PUT_CONVERSATION, _conversation_values(conversation))

    def touch(self, conversation_id: str) -> None:
        self._write("UPDATE conversations SET updated_at = ? WHERE id = ?", (time.time(), conversation_id))

    def purge(self, conversation_id: str) -> None:
        """Remove a conversation and its messages for good."""
        self._write("DELETE FROM conversations WHERE id = ?", (conversation_id,))

    def empty_trash(self, before: float) -> None:
        """Remove for good what was deleted before a moment (seconds since the epoch).

        Asked at every start; where nothing was, nothing is written, so that no start waits for a copy of the file.
        """
        found = self._connection.execute("SELECT 1 FROM conversations WHERE deleted_at < ? LIMIT 1", (before,))
        if found.fetchone() is not None:
            self._write("DELETE FROM conversations WHERE deleted_at < ?", (before,))

    # --- messages ---

    def messages(self, conversation_id: str) -> list[Message]:
        """The whole tree, oldest first."""
        rows = self._connection.execute(
            f"SELECT {_MESSAGE} FROM messages WHERE conversation_id = ? ORDER BY created_at, rowid", (conversation_id,)
        )
        return [_message(row) for row in rows]

    def put_messages(self, messages: Iterable[Message]) -> None:
        """Insert, or replace those of the same id."""
        self._write(_PUT_MESSAGE, *map(_message_values, messages))

    def save_texts(self, texts: Mapping[str, str]) -> None:
        """Text so far of answers that are being written, by message id."""
        self._write("UPDATE messages SET content = ? WHERE id = ?", *((text, key) for key, text in texts.items()))

    def save_details(self, message_id: str, details: Mapping[str, Any]) -> None:
        """Of a message that is there; nothing comes back that was deleted meanwhile."""
        self._write("UPDATE messages SET details = ? WHERE id = ?", (json.dumps(details), message_id))

    def delete_messages(self, ids: Iterable[str]) -> None:
        self._write("DELETE FROM messages WHERE id = ?", *((key,) for key in ids))

    def search(self, text: str, limit: int = 200) -> list[Found]:
        """Messages that hold `text` (any case), newest conversations first; trash is left out."""
        text = text.strip()
        if not text:
            return []
        if len(text) >= 3:  # what trigrams can find
            where = "m.rowid IN (SELECT rowid FROM message_search WHERE message_search MATCH ?)"
            argument = '"' + text.replace('"', '""') + '"'
        else:
            where = "m.content LIKE ? ESCAPE '\\'"
            argument = "%" + re.sub(r"([%_\\])", r"\\\1", text) + "%"
        rows = self._connection.execute(
            "SELECT m.conversation_id, m.id, m.content FROM messages m"
            " JOIN conversations c ON c.id = m.conversation_id"
            f" WHERE c.deleted_at IS NULL AND {where} ORDER BY c.updated_at DESC, m.rowid LIMIT ?",
            (argument, limit),
        )
        return [Found(conversation, message, excerpt(content, text)) for conversation, message, content in rows]


def excerpt(content: str, text: str, around: int = 40) -> str:
    """The neighbourhood of the first `text` in `content`, on one line."""
    at = max(0, content.lower().find(text.lower()))
    start, end = max(0, at - around), at + len(text) + around
    words = " ".join(content[start:end].split())
    return ("…" if start else "") + words + ("…" if end < len(content) else "")


def _conversation_values(item: Conversation) -> tuple[Any, ...]:
    return (
        item.id,
        item.title,
        item.titled_by,
        item.created_at,
        item.updated_at,
        item.deleted_at,
        int(item.pinned),
        item.folder,
        json.dumps(item.parameters),
    )


def _conversation(row: tuple[Any, ...]) -> Conversation:
    *plain, pinned, folder, parameters = row
    return Conversation(*plain, pinned=bool(pinned), folder=folder, parameters=json.loads(parameters))


def _message_values(item: Message) -> tuple[Any, ...]:
    return (
        item.id,
        item.conversation_id,
        item.parent_id,
        item.role,
        item.content,
        item.created_at,
        item.status.value,
        int(item.selected),
        json.dumps(item.details),
    )


def _message(row: tuple[Any, ...]) -> Message:
    *plain, status, selected, details = row
    return Message(*plain, status=Status(status), selected=bool(selected), details=json.loads(details))
