"""What a model is told of a conversation. Free of Qt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from app.chat.attachments import prompt_text
from app.chat.parameters.table import Answering
from app.store.records import Message, Status
from app.store.tree import ConversationTree
from engine.messages import ChatMessage, FinishReason, GenerationRequest
from engine.text.reasoning import split_reasoning

SUMMARY = "summary_before"  # in a message's details: what stands for everything before it


def can_continue(tree: ConversationTree, message_id: str) -> bool:
    """Whether a message is the path's last answer, has text, and did not end by itself."""
    last = tree.last()
    if last is None or last.id != message_id or last.role != "assistant" or not last.content:
        return False
    ended_itself = last.details.get("reason") == FinishReason.STOP.value and last.status is Status.COMPLETE
    return last.status is not Status.STREAMING and not ended_itself


def prompt_messages(path: Iterable[Message]) -> Iterator[ChatMessage]:
    """What the model is told of a path: neither answers that never began nor what it thought before.

    Where a summary stands for everything before a message, it is told instead.
    """
    messages = list(path)
    starts = [number for number, message in enumerate(messages) if SUMMARY in message.details]
    for message in messages[starts[-1] if starts else 0 :]:
        if message.role == "assistant" and not message.content:
            continue
        content = split_reasoning(message.content).said if message.role == "assistant" else message.content
        if attachments := message.details.get("attachments"):
            content = prompt_text(attachments, content)
        if message is messages[starts[-1] if starts else 0] and SUMMARY in message.details:
            content = f"(Summary of our conversation so far: {message.details[SUMMARY]})\n\n{content}"
        yield ChatMessage(message.role, content)  # type: ignore[arg-type]


def generation_request(path: Iterable[Message], parameters: Answering, request_id: str) -> GenerationRequest:
    """What the engine is asked to answer a path that ends with the owner's message."""
    history = tuple(prompt_messages(path))
    if parameters.system_prompt:
        history = (ChatMessage("system", parameters.system_prompt), *history)
    return GenerationRequest(
        request_id,
        history,
        parameters.sampling,
        max_tokens=parameters.max_tokens,
        stop=parameters.stop,
        overflow=parameters.overflow,
        reasoning=parameters.reasoning,
    )


def first_kept(path: list[Message]) -> Message | None:
    """The owner's message from which the younger half of the turns begins; None where there is nothing before."""
    starts = [number for number, message in enumerate(path) if SUMMARY in message.details]
    users = [message for message in path[starts[-1] if starts else 0 :] if message.role == "user"]
    return users[max(1, len(users) // 2)] if len(users) > 1 else None
