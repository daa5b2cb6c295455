"""What a model is told of a conversation. Free of Qt."""

from __future__ import annotations

from collections.abc import Iterable

from app.chat.attachments import prompt_text
from app.store.records import Message, Status
from app.store.tree import ConversationTree
from engine.messages import ChatMessage, FinishReason
from engine.text.reasoning import split_reasoning


def can_continue(tree: ConversationTree, message_id: str) -> bool:
    """Whether a message is the path's last answer, has text, and did not end by itself."""
    last = tree.last()
    if last is None or last.id != message_id or last.role != "assistant" or not last.content:
        return False
    ended_itself = last.details.get("reason") == FinishReason.STOP.value and last.status is Status.COMPLETE
    return last.status is not Status.STREAMING and not ended_itself


def prompt_messages(path: Iterable[Message]) -> Iterable[ChatMessage]:
    """What the model is told of a path: neither answers that never began nor what it thought before."""
    for message in path:
        if message.role == "assistant" and not message.content:
            continue
        content = split_reasoning(message.content).answer if message.role == "assistant" else message.content
        if attachments := message.details.get("attachments"):
            content = prompt_text(attachments, content)
        yield ChatMessage(message.role, content)  # type: ignore[arg-type]
