"""Rows go in and come out unchanged; every schema version is carried over, with a backup."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from app.store import schema
from app.store.conversations import ConversationStore
from app.store.errors import StoreError
from app.store.records import Conversation, Message, Status


@pytest.fixture
def path(tmp_path):
    return tmp_path / "conversations.db"


CONVERSATION = Conversation("c", "A title — 标题", "owner", 1.0, 2.0, None, True, "Work", {"temperature": 0.5})
QUESTION = Message("q", "c", None, "user", "Hi\n\u2028 \U0001f642", 1.0)
ANSWER = Message("a", "c", "q", "assistant", "Yes", 2.0, Status.STOPPED, True, {"engine": "native", "ttft": 0.25})


def fill(store: ConversationStore) -> None:
    store.put_conversation(CONVERSATION)
    store.put_messages([QUESTION, ANSWER])


def test_rows_come_back_as_they_went_in(path):
    store = ConversationStore(path)
    fill(store)
    store.close()
    store = ConversationStore(path)
    assert store.conversations() == [CONVERSATION]
    assert store.messages("c") == [QUESTION, ANSWER]
    store.close()


def test_putting_again_replaces_and_keeps_the_order(path):
    store = ConversationStore(path)
    fill(store)
    longer = replace(QUESTION, content="Longer")
    store.put_messages([longer])
    assert store.messages("c") == [longer, ANSWER]
    store.save_texts({"a": "Yes, and more"})
    assert store.messages("c")[1].content == "Yes, and more"
    store.close()


def test_the_trash_keeps_messages_and_purging_does_not(path):
    store = ConversationStore(path)
    fill(store)
    store.put_conversation(replace(CONVERSATION, deleted_at=5.0))
    assert store.conversations() == []
    assert [row.id for row in store.conversations(deleted=True)] == ["c"]
    assert len(store.messages("c")) == 2
    store.purge("c")
    assert store.messages("c") == []
    store.close()


def test_emptying_the_trash_copies_the_file_only_where_it_removes(path):
    store = ConversationStore(path)
    store.put_conversation(Conversation("gone", deleted_at=1.0))
    store.close()
    store = ConversationStore(path)
    store.empty_trash(1.0)
    assert store._session.is_due  # no start waits for a copy of all conversations
    assert [row.id for row in store.conversations(deleted=True)] == ["gone"]
    store.empty_trash(2.0)
    assert not store._session.is_due
    assert store.conversations(deleted=True) == []
    store.close()


def test_an_answer_cut_off_by_the_end_of_the_process_says_so(path):
    store = ConversationStore(path)
    store.put_conversation(CONVERSATION)
    store.put_messages([replace(ANSWER, status=Status.STREAMING)])
    store.close()
    store = ConversationStore(path)
    assert store.messages("c")[0].status is Status.INTERRUPTED
    store.close()


@pytest.mark.parametrize("old", range(1, schema.VERSION))
def test_every_older_version_is_carried_over_with_a_backup(path, old):
    connection = sqlite3.connect(path, isolation_level=None)
    schema.migrate(connection, path, target=old)
    connection.execute(
        "INSERT INTO conversations (id, title, titled_by, created_at, updated_at) VALUES ('c','T','owner',1,2)"
    )
    connection.execute(
        "INSERT INTO messages (id, conversation_id, parent_id, role, content, created_at, status, selected)"
        " VALUES ('m','c',NULL,'user','old words',1,'complete',1)"
    )
    connection.close()
    store = ConversationStore(path)
    assert [row.title for row in store.conversations()] == ["T"]
    assert [row.content for row in store.messages("c")] == ["old words"]
    store.close()
    backup = sqlite3.connect(path.with_name(f"conversations.v{old}.backup.db"))
    assert backup.execute("SELECT content FROM messages").fetchall() == [("old words",)]
    assert backup.execute("PRAGMA user_version").fetchone() == (old,)
    backup.close()


def test_a_failing_migration_changes_nothing(path, monkeypatch):
    ConversationStore(path).close()

    def broken(connection):
        connection.execute("DROP TABLE messages")
        raise sqlite3.OperationalError("no")

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, broken))
    connection = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError):
        schema.migrate(connection, path, target=schema.VERSION + 1)
    assert connection.execute("SELECT count(*) FROM messages").fetchone() == (0,)
    assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
    connection.close()


def test_a_newer_file_is_refused_untouched(path):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="newer version"):
        ConversationStore(path)
    assert path.read_bytes()[:100] == before[:100]
