"""Export and import carry the whole tree."""

from __future__ import annotations

import json
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from app.chat.exchange import Bundle, file_name, from_text, renewed, to_json, to_markdown
from app.store.records import Conversation, Message, Status
from app.store.tree import ConversationTree
from engine.errors import FormatError

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=40) | st.sampled_from(
    [
        "<!-- message: {} -->",
        "\\<!-- message: {} -->\nx",
        "## You\n\n--> -- <!--",
        "",
        "\n\n",
        "<!-- conversation: {} -->",
    ]
)


@st.composite
def bundles(draw) -> Bundle:
    conversation = Conversation("c", draw(TEXT.filter(lambda t: "\n" not in t)), "owner", 1.0, 2.0, pinned=True)
    messages: list[Message] = []
    for number in range(draw(st.integers(0, 8))):
        parent = draw(st.sampled_from([None, *[m.id for m in messages]]))
        status = draw(st.sampled_from([Status.COMPLETE, Status.STOPPED, Status.FAILED]))
        details = {"note": draw(TEXT)}
        role = draw(st.sampled_from(["user", "assistant"]))
        messages.append(Message(f"m{number}", "c", parent, role, draw(TEXT), float(number), status, True, details))
    return Bundle(conversation, messages)


def shape(bundle: Bundle) -> object:
    """Everything but the ids, as a tree."""
    tree = ConversationTree(bundle.conversation.id, bundle.messages)

    def below(parent: str | None) -> list[object]:
        return [
            (m.role, m.content, m.status, m.created_at, m.selected, m.details, below(m.id))
            for m in tree.children(parent)
        ]

    return replace(bundle.conversation, id="c"), below(None)


@settings(max_examples=150, deadline=None)
@given(bundles())
def test_both_formats_come_back_whole(bundle):
    for text in (to_json([bundle]), to_markdown(bundle)):
        (read,) = from_text(text, "file")
        assert shape(read) == shape(bundle)
        assert not {m.id for m in read.messages} & {m.id for m in bundle.messages}
        assert all(m.conversation_id == read.conversation.id for m in read.messages)


def test_markdown_is_readable():
    bundle = Bundle(Conversation("c", "Title"), [Message("m", "c", None, "user", "Hello\nyou")])
    assert "# Title" in to_markdown(bundle)
    assert "## You\n\nHello\nyou\n" in to_markdown(bundle)


def test_several_conversations_in_one_json_file():
    text = to_json([Bundle(Conversation("a", "A"), []), Bundle(Conversation("b", "B"), [])])
    assert [bundle.conversation.title for bundle in from_text(text, "f")] == ["A", "B"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "{",
        "{}",
        "[]",
        json.dumps({"format": "tessera-conversations", "version": 99, "conversations": []}),
        json.dumps({"format": "tessera-conversations", "version": 1, "conversations": [{"conversation": {}}]}),
        json.dumps({"format": "tessera-conversations", "version": 1, "conversations": 5}),
        "<!-- conversation: {} -->",
        '{"format": ' + "[" * 100_000,
        "<!-- conversation: {" + "[" * 100_000 + "} -->",
        to_json([Bundle(Conversation("c", "HALF"), [])]).replace("HALF", "\\ud800"),
        to_json([Bundle(Conversation("c", "T"), [Message("m", "c", None, "user", "HALF")])]).replace("HALF", "\\udc00"),
    ],
    ids=range(13),
)
def test_other_files_are_refused_by_name(text):
    with pytest.raises(FormatError, match=r"strange\.md"):
        from_text(text, "strange.md")


def test_a_lost_parent_is_refused():
    bundle = Bundle(Conversation("c", "T"), [Message("m", "c", "gone", "user", "x")])
    with pytest.raises(FormatError, match="parent"):
        from_text(to_json([bundle]), "f.json")


def test_a_copy_has_its_own_title_and_ids():
    bundle = Bundle(Conversation("c", "T"), [Message("m", "c", None, "user", "x")])
    copy = renewed(bundle, "T (copy)")
    assert copy.conversation.title == "T (copy)"
    assert copy.messages[0].id != "m"
    assert bundle.conversation.title == "T"


@pytest.mark.parametrize(("title", "name"), [("a/b: c?", "a b c"), ("...", "conversation"), ("你好", "你好")])
def test_file_names(title, name):
    assert file_name(title) == name
