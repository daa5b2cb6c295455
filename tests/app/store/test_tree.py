"""The tree never loses or doubles a message, whatever is done to it."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from app.store.records import Message
from app.store.tree import ConversationTree


def message(key: str, parent: str | None, role: str = "user") -> Message:
    return Message(key, "c", parent, role, f"text of {key}", created_at=float(len(key)))


def ids(messages: list[Message]) -> list[str]:
    return [item.id for item in messages]


def test_path_follows_the_selected_versions():
    tree = ConversationTree("c", [message("q", None), message("a1", "q"), message("f1", "a1")])
    tree.add(message("a2", "q"))
    assert ids(tree.path()) == ["q", "a2"]
    assert ids(tree.siblings("a1")) == ["a1", "a2"]
    tree.select("a1")
    assert ids(tree.path()) == ["q", "a1", "f1"]


def test_switching_there_and_back_shows_the_same_messages():
    tree = ConversationTree("c")
    for key, parent in (("q", None), ("a", "q"), ("f", "a"), ("x", "f"), ("y", "f"), ("b", "q"), ("g", "b")):
        tree.add(message(key, parent))
    tree.select("a")
    tree.select("x")
    before = ids(tree.path())
    tree.select("b")
    assert ids(tree.path()) == ["q", "b", "g"]
    tree.select("a")
    assert ids(tree.path()) == before


def test_removing_takes_the_subtree_and_undo_brings_it_back():
    tree = ConversationTree("c")
    for key, parent in (("q", None), ("a", "q"), ("f", "a"), ("b", "q")):
        tree.add(message(key, parent))
    tree.select("a")
    removed, changed = tree.remove("a")
    assert ids(removed) == ["a", "f"]
    assert ids(changed) == ["b"]
    assert ids(tree.path()) == ["q", "b"]
    tree.restore(removed)
    assert ids(tree.path()) == ["q", "a", "f"]
    assert len(tree) == 4


def test_a_message_needs_its_parent_and_is_taken_once():
    tree = ConversationTree("c", [message("q", None)])
    with pytest.raises(KeyError):
        tree.add(message("a", "nowhere"))
    with pytest.raises(ValueError, match="already"):
        tree.add(message("q", None))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["add", "select", "remove", "undo"]), st.integers(0, 10**6)), max_size=60))
def test_no_operation_loses_or_doubles_a_message(steps):
    tree = ConversationTree("c")
    alive: set[str] = set()
    undo: list[list[Message]] = []
    for number, (step, choice) in enumerate(steps):
        known = sorted(alive)
        if step == "add":
            parent = None if not known or choice % 7 == 0 else known[choice % len(known)]
            tree.add(message(f"m{number:03}", parent))
            alive.add(f"m{number:03}")
        elif step == "select" and known:
            tree.select(known[choice % len(known)])
        elif step == "remove" and known:
            removed, _ = tree.remove(known[choice % len(known)])
            undo.append(removed)
            alive -= {item.id for item in removed}
        elif step == "undo" and undo:
            removed = undo.pop()
            if removed[0].parent_id is None or removed[0].parent_id in alive:
                tree.restore(removed)
                alive |= {item.id for item in removed}
        check(tree, alive)


def check(tree: ConversationTree, alive: set[str]) -> None:
    stored = [item.id for item in tree.messages()]
    assert sorted(stored) == sorted(alive)
    for key in alive:
        versions = tree.siblings(key)
        assert sum(item.id == key for item in versions) == 1
        assert sum(item.selected for item in versions) == 1
    path = tree.path()
    assert len({item.id for item in path}) == len(path)
    for above, below in itertools.pairwise(path):
        assert below.parent_id == above.id
    assert not path or not tree.children(path[-1].id)
