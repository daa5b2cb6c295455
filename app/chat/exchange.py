"""Conversations as files: JSON and Markdown, both with the whole tree, both read back without loss. Free of Qt."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from app.store.records import Conversation, Message, Status, new_id
from engine.errors import FormatError

FORMAT = "tessera-conversations"
VERSION = 1
_ROLES = {"user": "You", "assistant": "Assistant", "system": "System", "tool": "Tool"}
_MARK = "<!-- message:"
_MARK_LINE = re.compile(r"^<!-- message: (\{.*\}) -->$")
_ESCAPED = re.compile(r"^(\\*)<!-- (?:message|conversation):")
_HEAD_LINE = re.compile(r"^<!-- conversation: (\{.*\}) -->$")


@dataclass(slots=True)
class Bundle:
    """A conversation with all its messages."""

    conversation: Conversation
    messages: list[Message]


def to_json(bundles: Iterable[Bundle]) -> str:
    items = [
        {"conversation": asdict(bundle.conversation), "messages": [_plain(message) for message in bundle.messages]}
        for bundle in bundles
    ]
    return json.dumps({"format": FORMAT, "version": VERSION, "conversations": items}, ensure_ascii=False, indent=1)


def to_markdown(bundle: Bundle) -> str:
    """Readable anywhere; comments carry what a reader does not need to see."""
    conversation = bundle.conversation
    lines = [f"<!-- conversation: {_inline_json(asdict(conversation))} -->", f"# {conversation.title}", ""]
    for message in bundle.messages:
        head = _plain(message)
        del head["content"]
        lines.append(f"{_MARK} {_inline_json(head)} -->")
        lines.append(f"## {_ROLES.get(message.role, message.role)}")
        lines.append("")
        lines.extend(_escape(line) for line in message.content.split("\n"))
        lines.append("")
    return "\n".join(lines)


def from_text(text: str, name: str) -> list[Bundle]:
    """Read either format; every id is made new, so that importing twice gives two copies.

    Raises FormatError that names the file.
    """
    try:
        bundles = _from_json(text) if text.lstrip().startswith("{") else _from_markdown(text)
        to_json(bundles).encode()  # halves of characters, which JSON can name and no file can hold, are a ValueError
        return [renewed(bundle) for bundle in bundles]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FormatError(
            f"{name} holds no conversations of Tessera: {error}.",
            done="Nothing was imported.",
            remedy="Choose a JSON or Markdown file that Tessera exported.",
        ) from error


def renewed(bundle: Bundle, title: str | None = None) -> Bundle:
    """The same conversation under new ids. Raises ValueError where a message's parent is missing."""
    conversation = Conversation(**{**asdict(bundle.conversation), "id": new_id(), "deleted_at": None})
    if title is not None:
        conversation.title = title
    ids = {message.id: new_id() for message in bundle.messages}
    if len(ids) != len(bundle.messages):
        raise ValueError("two messages have the same id")
    messages = []
    for message in bundle.messages:
        if message.parent_id is not None and message.parent_id not in ids:
            raise ValueError(f"the parent of message {message.id} is missing")
        copy = Message(**{**asdict(message), "status": message.status})
        copy.id, copy.conversation_id = ids[message.id], conversation.id
        copy.parent_id = ids[message.parent_id] if message.parent_id is not None else None
        if copy.status is Status.STREAMING:
            copy.status = Status.INTERRUPTED
        messages.append(copy)
    return Bundle(conversation, messages)


def _from_json(text: str) -> list[Bundle]:
    stored = json.loads(text)
    if stored.get("format") != FORMAT:
        raise ValueError("the format is not named")
    if stored["version"] > VERSION:
        raise ValueError(f"version {stored['version']} is newer than this program")
    return [
        Bundle(Conversation(**item["conversation"]), [_message(message) for message in item["messages"]])
        for item in stored["conversations"]
    ]


def _from_markdown(text: str) -> list[Bundle]:
    lines = text.split("\n")
    head = _HEAD_LINE.match(lines[0])
    if head is None:
        raise ValueError("the first line does not name the conversation")
    conversation = Conversation(**json.loads(head.group(1)))
    messages: list[Message] = []
    starts = [number for number, line in enumerate(lines) if _MARK_LINE.match(line)]
    for start, end in pairwise([*starts, len(lines)]):
        mark = _MARK_LINE.match(lines[start])
        assert mark is not None
        body = lines[start + 3 : end - 1]  # without the heading, and the blank lines around
        content = "\n".join(_unescape(line) for line in body)
        messages.append(_message({**json.loads(mark.group(1)), "content": content}))
    return [Bundle(conversation, messages)]


def _plain(message: Message) -> dict[str, Any]:
    return {**asdict(message), "status": message.status.value}


def _message(stored: dict[str, Any]) -> Message:
    message = Message(**{**stored, "status": Status(stored["status"])})
    if not isinstance(message.content, str):
        raise TypeError("a message's content is no text")
    return message


def _inline_json(value: dict[str, Any]) -> str:
    """On one line, and without the characters that would end the comment."""
    return json.dumps(value, ensure_ascii=False).replace("--", "-\\u002d").replace(">", "\\u003e")


def _escape(line: str) -> str:
    return "\\" + line if _ESCAPED.match(line) else line


def _unescape(line: str) -> str:
    return line[1:] if line.startswith("\\") and _ESCAPED.match(line) else line


def file_name(title: str) -> str:
    """A name that every file system takes."""
    words = re.sub(r'[\\/:*?"<>|\x00-\x1f\s]+', " ", title).strip(" .")
    return words[:80] or "conversation"
