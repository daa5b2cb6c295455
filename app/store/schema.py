"""The database's tables and how each version became the next one.

`PRAGMA user_version` is the schema's version. Before a migration the whole file is copied beside itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from app.store.errors import StoreError


def _version_1(connection: sqlite3.Connection) -> None:
    connection.execute(
        """
        CREATE TABLE conversations (
            id TEXT PRIMARY KEY,
            title TEXT NOT NULL,
            titled_by TEXT NOT NULL,
            created_at REAL NOT NULL,
            updated_at REAL NOT NULL,
            deleted_at REAL,
            pinned INTEGER NOT NULL DEFAULT 0,
            folder TEXT NOT NULL DEFAULT '',
            parameters TEXT NOT NULL DEFAULT '{}'
        )
        """
    )
    connection.execute(
        """
        CREATE TABLE messages (
            id TEXT PRIMARY KEY,
            conversation_id TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
            parent_id TEXT,
            role TEXT NOT NULL,
            content TEXT NOT NULL,
            created_at REAL NOT NULL,
            status TEXT NOT NULL,
            selected INTEGER NOT NULL,
            details TEXT NOT NULL DEFAULT '{}'
        )
        """
    )
    connection.execute("CREATE INDEX messages_by_conversation ON messages(conversation_id)")


def _version_2(connection: sqlite3.Connection) -> None:
    """Full-text search over messages. Trigrams find parts of words, and scripts that have no spaces.

    An answer is indexed once it is complete, not with each piece that streams in. The index names rows by rowid,
    so the file must never be VACUUMed in place.
    """
    connection.execute(
        "CREATE VIRTUAL TABLE message_search USING fts5("
        "content, content='messages', content_rowid='rowid', tokenize='trigram')"
    )
    add = "INSERT INTO message_search(rowid, content) VALUES (new.rowid, new.content);"
    drop = "INSERT INTO message_search(message_search, rowid, content) VALUES ('delete', old.rowid, old.content);"
    for name, event, row, action in (
        ("search_insert", "AFTER INSERT", "new", add),
        ("search_delete", "AFTER DELETE", "old", drop),
        ("search_update_old", "BEFORE UPDATE", "old", drop),
        ("search_update_new", "AFTER UPDATE", "new", add),
    ):
        connection.execute(
            f"CREATE TRIGGER {name} {event} ON messages WHEN {row}.status <> 'streaming' BEGIN {action} END"
        )
    connection.execute(
        "INSERT INTO message_search(rowid, content) SELECT rowid, content FROM messages WHERE status <> 'streaming'"
    )


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (_version_1, _version_2)
VERSION = len(MIGRATIONS)


def open_database(path: Path) -> sqlite3.Connection:
    """Open or create the database and bring it to this version. Raises StoreError, sqlite3.Error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)  # transactions are opened by hand
    try:
        check_version(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")  # a killed process loses nothing, a power cut the last moment
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA busy_timeout = 5000")
        migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def check_version(connection: sqlite3.Connection, path: Path) -> int:
    """The file's schema version. Raises StoreError where it is newer than this program."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise StoreError(
            f"The conversations in {path} were written by a newer version of Tessera (schema {version}).",
            done="The file was left untouched.",
            remedy="Update Tessera, or start it with another data folder.",
        )
    return version


def migrate(connection: sqlite3.Connection, path: Path, target: int = VERSION) -> None:
    """Bring the file to `target`: all steps or none, after a backup."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == target:
        return
    if version > 0:
        back_up(connection, path.with_name(f"{path.stem}.v{version}.backup{path.suffix}"))
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in range(version, target):
            MIGRATIONS[step](connection)
        connection.execute(f"PRAGMA user_version = {target}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def back_up(connection: sqlite3.Connection, target: Path) -> None:
    """A complete copy at `target`, never a half-written one."""
    draft = target.with_suffix(target.suffix + ".part")
    draft.unlink(missing_ok=True)
    copy = sqlite3.connect(draft)
    try:
        connection.backup(copy)
    finally:
        copy.close()
    draft.replace(target)
