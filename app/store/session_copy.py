"""All that the conversations file held when the session began, and what was written since.

Another program that writes over the open file (a copy put there, a folder kept alike on two computers) destroys what
was in it, so this is what the file is written anew from.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from app.store.schema import back_up, migrate


class SessionCopy:
    """A temporary database, in memory as long as it is small and in a nameless file beyond that, and the newest
    change of each kind and row since it was taken."""

    def __init__(self) -> None:
        self._begin: sqlite3.Connection | None = None
        self.is_due = True  # it is tried once
        self._changes: dict[tuple[str, Any], tuple[Any, ...]] = {}

    def take(self, connection: sqlite3.Connection) -> None:
        """Copy all that the file holds. sqlite3.Error: there is no room for that; then only changes are remembered."""
        self.is_due = False
        copy = sqlite3.connect("", isolation_level=None)
        try:
            connection.backup(copy)
        except sqlite3.Error:
            copy.close()
            raise
        self._begin = copy
        self._changes.clear()

    def record(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """A change that was committed; of each row, a statement's first or last value is the id."""
        for row in rows:
            key = (statement, row[0] if statement.startswith("INSERT") else row[-1])
            self._changes.pop(key, None)  # the newest comes last, so that deleting and putting back keep their order
            self._changes[key] = row

    def write_to(self, target: Path) -> None:
        """A complete database at `target`. sqlite3.Error, OSError: not possible."""
        with_changes = sqlite3.connect("", isolation_level=None)
        try:
            if self._begin is None:
                migrate(with_changes, target)
            else:
                self._begin.backup(with_changes)
            # A row written twice stands where it was written last, so a message may come before its conversation.
            with_changes.execute("PRAGMA foreign_keys = OFF")
            with_changes.execute("BEGIN")
            for (statement, _), row in self._changes.items():
                with_changes.execute(statement, row)
            with_changes.execute("DELETE FROM messages WHERE conversation_id NOT IN (SELECT id FROM conversations)")
            with_changes.execute("COMMIT")
            back_up(with_changes, target)
        finally:
            with_changes.close()

    def close(self) -> None:
        """Forget the copy; the next one is of another file."""
        if self._begin is not None:
            self._begin.close()
            self._begin = None
        self.is_due = True
