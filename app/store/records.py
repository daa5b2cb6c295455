"""What a conversation and a message are. Free of Qt and of SQL."""

from __future__ import annotations

import enum
import time
import uuid
from dataclasses import dataclass, field, replace
from typing import Any


class Status(enum.Enum):
    COMPLETE = "complete"
    STREAMING = "streaming"
    STOPPED = "stopped"  # by the owner; the text so far is kept
    INTERRUPTED = "interrupted"  # the application ended while it was being written
    FAILED = "failed"  # `details["error"]` says why; the text so far is kept


def new_id() -> str:
    return uuid.uuid4().hex


@dataclass(slots=True)
class Message:
    """One node of a conversation's tree. Of the children of a node, one is `selected`: the branch on screen.

    `details` holds plain values for an answer: engine, model, finish reason, measured times, error.
    """

    id: str
    conversation_id: str
    parent_id: str | None
    role: str
    content: str
    created_at: float = field(default_factory=time.time)
    status: Status = Status.COMPLETE
    selected: bool = True
    details: dict[str, Any] = field(default_factory=dict)

    def copy(self) -> Message:
        """The row as it is now, for another thread."""
        return replace(self, details=dict(self.details))


@dataclass(slots=True)
class Conversation:
    """A row of the conversation list. `deleted_at` is set while it lies in the trash."""

    id: str
    title: str = ""
    titled_by: str = "nobody"  # "nobody" | "first message" | "model" | "owner"
    created_at: float = field(default_factory=time.time)
    updated_at: float = field(default_factory=time.time)
    deleted_at: float | None = None
    pinned: bool = False
    folder: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)  # system prompt, sampling, model of its own
