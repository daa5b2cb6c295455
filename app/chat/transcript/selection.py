"""Selected text across the blocks of many messages. Free of Qt."""

from __future__ import annotations

from dataclasses import dataclass

from app.chat.transcript.block_view import Span


@dataclass(frozen=True, slots=True, order=True)
class TextPlace:
    """A character's place: message, block in it, position in that."""

    message: int
    block: int
    position: int


class Selection:
    """From `anchor`, where it was begun, to `head`, which moves."""

    def __init__(self) -> None:
        self.anchor: TextPlace | None = None
        self.head: TextPlace | None = None

    @property
    def is_empty(self) -> bool:
        return self.anchor is None or self.anchor == self.head

    @property
    def bounds(self) -> tuple[TextPlace, TextPlace] | None:
        if self.anchor is None or self.head is None or self.anchor == self.head:
            return None
        return (self.anchor, self.head) if self.anchor < self.head else (self.head, self.anchor)

    def clear(self) -> None:
        self.anchor = self.head = None

    def set(self, anchor: TextPlace, head: TextPlace) -> None:
        self.anchor, self.head = anchor, head

    def span(self, message: int, block: int, length: int) -> Span | None:
        """Selected part of a block of `length` characters, or None."""
        bounds = self.bounds
        if bounds is None:
            return None
        first, last = bounds
        here = (message, block)
        if not (first.message, first.block) <= here <= (last.message, last.block):
            return None
        start = first.position if here == (first.message, first.block) else 0
        end = last.position if here == (last.message, last.block) else length
        return Span(start, end) if end > start else None
