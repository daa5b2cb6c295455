"""The parts that an answer's text is split into, and what the splitters share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, NamedTuple

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")

Kind = Literal["reasoning", "answer", "call", "call_end", "all_reasoning"]


class Segment(NamedTuple):
    """`call` is text of a tool call, up to the next `call_end`. `all_reasoning`: every answer segment so far was in
    truth reasoning. The latter two have no text, the others always have some."""

    kind: Kind
    text: str


class Fences:
    """Follows a text line by line and knows whether it stands inside a fenced code block."""

    def __init__(self) -> None:
        self.line = ""  # the current line so far
        self.fence = ""  # the marks that opened the current code block

    def take(self, text: str) -> None:
        """More text, with at most one line end, at its end."""
        self.line += text
        if not text.endswith("\n"):
            return
        marks = fence_marks(self.line)
        if not self.fence:
            self.fence = marks
        elif marks.startswith(self.fence) and not self.line.strip().strip(marks[0]):
            self.fence = ""
        self.line = ""

    def restart(self) -> None:
        self.line = self.fence = ""


def fence_marks(line: str) -> str:
    """The marks of a line that opens or closes a code block, else nothing."""
    match = _FENCE.match(line)
    return match.group(1) if match else ""


def first_of(text: str, marks: Iterable[str]) -> tuple[int, str] | None:
    """The earliest of `marks` in `text`, with where it stands; of several there the longest."""
    found = [(text.find(mark), -len(mark), mark) for mark in marks if mark in text]
    if not found:
        return None
    position, _, mark = min(found)
    return position, mark


def possible_mark(text: str, marks: Iterable[str]) -> int:
    """Length of the end of `text` that may become one of `marks`; asked for every token."""
    beginnings, letters, longest = _beginnings(tuple(marks))
    for start in range(max(0, len(text) - longest), len(text)):
        if text[start] in letters and text[start:] in beginnings:
            return len(text) - start
    return 0


@lru_cache(maxsize=64)
def _beginnings(marks: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str], int]:
    """All true beginnings of `marks`, their first letters, and the length of the longest."""
    found = frozenset(mark[:n] for mark in marks for n in range(1, len(mark)))
    return found, frozenset(one[0] for one in found), max(map(len, found), default=0)


def joined(segments: Iterable[Segment]) -> list[Segment]:
    """Neighbours of one kind as one."""
    result: list[Segment] = []
    for segment in segments:
        if result and result[-1].kind == segment.kind and segment.text:
            result[-1] = Segment(segment.kind, result[-1].text + segment.text)
        else:
            result.append(segment)
    return result
