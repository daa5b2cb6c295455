"""Search over everything that was said."""

from __future__ import annotations

import time

import pytest

from app.store.conversations import ConversationStore, excerpt
from app.store.records import Conversation, Message, Status


@pytest.fixture
def store(tmp_path):
    store = ConversationStore(tmp_path / "c.db")
    store.put_conversation(Conversation("c", "T"))
    yield store
    store.close()


def say(store, key, content, **more):
    store.put_messages([Message(key, "c", None, "user", content, **more)])


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("The Quick brown fox", "quick"),
        ("The Quick brown fox", "ick bro"),
        ("我喜欢马赛克艺术", "马赛克"),
        ("我喜欢马赛克艺术", "喜欢"),
        ('say "hello" AND leave', '"hello" AND'),
        ("100%_sure", "%_"),
        ("a\nb c", "c"),
    ],
)
def test_finds_parts_in_any_case_and_script(store, content, query):
    say(store, "m", content)
    say(store, "other", "nothing of the kind")
    found = store.search(query)
    assert [item.message_id for item in found][:1] == ["m"]
    assert query.lower() in found[0].excerpt.lower()


def test_nothing_is_found_for_nothing(store):
    say(store, "m", "text")
    assert store.search("  ") == []
    assert store.search("absent") == []


def test_the_index_follows_edits_deletions_and_the_trash(store):
    say(store, "m", "first words")
    say(store, "m", "second words")
    assert store.search("first") == []
    assert len(store.search("second")) == 1
    store.put_conversation(Conversation("c", "T", deleted_at=1.0))
    assert store.search("second") == []
    store.put_conversation(Conversation("c", "T"))
    store.delete_messages(["m"])
    assert store.search("second") == []
    say(store, "n", "third words")
    store.purge("c")
    store.put_conversation(Conversation("c", "T"))
    assert store.search("third") == []


def test_an_answer_is_found_once_it_is_complete(store):
    say(store, "a", "", status=Status.STREAMING)
    store.save_texts({"a": "partial text"})
    store.save_texts({"a": "partial text grows"})
    say(store, "a", "partial text grows up", status=Status.COMPLETE, created_at=time.time())
    assert [item.message_id for item in store.search("grows up")] == ["a"]


def test_excerpts_are_one_line_around_the_words():
    text = "x" * 100 + "\nneedle\n" + "y" * 100
    short = excerpt(text, "needle", around=5)
    assert short == "…xxxx needle yyyy…"
