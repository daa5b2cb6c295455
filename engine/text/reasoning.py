"""Splits a streamed answer into reasoning and answer.

Models put their reasoning between tags such as <think> and </think>. What counts:
- an opening tag only at the very start of the text (models that talk *about* tags write them later);
- a closing tag outside a fenced code block; without any opening tag, only when it stands alone on its line
  (some prompt templates open the block themselves): then everything before it turns out to be reasoning;
- a block that is never closed is reasoning to its end, unless an unclosed code fence hid the closing tag.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<seed:think>": "</seed:think>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "[THINK]": "[/THINK]",
}
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_OPEN_AT_END = re.compile("(?:" + "|".join(map(re.escape, TAGS)) + r")\s*\Z")

Kind = Literal["reasoning", "answer", "all_reasoning"]


class Segment(NamedTuple):
    """`all_reasoning` (with empty text): every answer segment so far was in truth reasoning."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Split:
    reasoning: str
    answer: str
    closed: bool  # False: the text ended while still reasoning


def opens_reasoning(prompt: str) -> bool:
    """Whether a rendered prompt ends with an opening tag, so that the answer begins inside the block."""
    return _OPEN_AT_END.search(prompt[-64:]) is not None


class ReasoningSplitter:
    """Feed text with `push`, end with `finish`; segments come in order, none of them empty but `all_reasoning`."""

    def __init__(self, *, opened: bool = False) -> None:
        self._state: Literal["start", "reasoning", "answer"] = "reasoning" if opened else "start"
        self._closings = tuple(TAGS.values())
        self._may_turn = not opened  # a lone closing tag may still turn the answer so far into reasoning
        self._pending = ""
        self._line = ""  # the current line up to `_pending`, to see fences and lone tags
        self._fence = ""  # the marks that opened the current code block
        self._trim = False  # drop white space at the start of what follows a tag

    @property
    def reasoning(self) -> bool:
        """Whether the text stands inside a reasoning block now."""
        return self._state == "reasoning"

    def push(self, text: str) -> list[Segment]:
        self._pending += text
        return _joined(self._consume(final=False))

    def finish(self) -> list[Segment]:
        return _joined(self._consume(final=True))

    # --- one step at a time ------------------------------------------------------------------------------------

    def _consume(self, final: bool) -> list[Segment]:
        segments: list[Segment] = []
        if self._state == "start" and not self._open(final):
            return segments
        while self._pending:
            tag = self._first_tag()
            end = self._pending.find("\n") + 1 or len(self._pending)
            if tag is not None and tag[0] < end:
                if not self._close(tag[0], tag[1], segments, final):
                    break
                continue
            held = 0 if final or self._pending[:end].endswith("\n") else self._possible_tag()
            self._take(end - held, segments)
            if held:
                break
        return segments

    def _open(self, final: bool) -> bool:
        """Leave the start state once it is clear whether the text begins with an opening tag."""
        text = self._pending.lstrip()
        for tag in TAGS:
            if text.startswith(tag):
                self._closings = (TAGS[tag],)
                self._pending, self._state, self._trim, self._may_turn = text[len(tag) :], "reasoning", True, False
                return True
        if not final and (not text or any(tag.startswith(text) for tag in TAGS)):
            return False
        self._state = "answer"
        return True

    def _first_tag(self) -> tuple[int, str] | None:
        if self._fence or (self._state == "answer" and not self._may_turn):
            return None
        found = [(self._pending.find(tag), tag) for tag in self._closings if tag in self._pending]
        return min(found, default=None)

    def _close(self, position: int, tag: str, segments: list[Segment], final: bool) -> bool:
        """Handle a closing tag in the current line; False when more text is needed to judge it."""
        after = self._pending[position + len(tag) :]
        if self._state == "answer":
            rest = after.split("\n", 1)[0]
            alone = not (self._line + self._pending[:position]).strip() and not rest.strip()
            if alone and "\n" not in after and not final:
                return False
            if not alone:
                self._take(position + len(tag), segments)
                return True
        if self._fence_line(self._line + self._pending[:position]):
            self._take(position + len(tag), segments)
            return True
        self._take(position, segments)
        if self._state == "answer":
            segments.append(Segment("all_reasoning", ""))
        self._pending, self._line, self._state = after, "", "answer"
        self._trim, self._may_turn, self._fence = True, False, ""
        return True

    def _possible_tag(self) -> int:
        """Length of the pending text's end that may become a closing tag."""
        if self._fence or (self._state == "answer" and not self._may_turn):
            return 0
        return max(
            (n for tag in self._closings for n in range(1, len(tag)) if self._pending.endswith(tag[:n])),
            default=0,
        )

    def _take(self, length: int, segments: list[Segment]) -> None:
        """Emit the pending text's first `length` characters, which hold at most one line end, at their end."""
        text, self._pending = self._pending[:length], self._pending[length:]
        self._line += text
        if text.endswith("\n"):
            self._end_line()
        if self._trim:
            text = text.lstrip()
            self._trim = not text
        if text:
            segments.append(Segment("reasoning" if self._state == "reasoning" else "answer", text))

    def _end_line(self) -> None:
        marks = self._fence_line(self._line)
        if not self._fence:
            self._fence = marks
        elif marks.startswith(self._fence) and not self._line.strip().strip(marks[0]):
            self._fence = ""
        self._line = ""

    @staticmethod
    def _fence_line(line: str) -> str:
        match = _FENCE.match(line)
        return match.group(1) if match else ""


def split_reasoning(text: str, *, opened: bool = False) -> Split:
    """A complete text at once. Where an unclosed code fence hid the closing tag, the first hidden one counts."""
    splitter = ReasoningSplitter(opened=opened)
    reasoning, answer = "", ""
    for kind, part in [*splitter.push(text), *splitter.finish()]:
        if kind == "reasoning":
            reasoning += part
        elif kind == "answer":
            answer += part
        else:
            reasoning, answer = reasoning + answer, ""
    hidden = min(((reasoning.find(tag), tag) for tag in TAGS.values() if tag in reasoning), default=None)
    if splitter.reasoning and hidden is not None:
        position, tag = hidden
        return Split(reasoning[:position].rstrip(), reasoning[position + len(tag) :].lstrip(), True)
    return Split(reasoning.rstrip(), answer, not splitter.reasoning)


def _joined(segments: list[Segment]) -> list[Segment]:
    joined: list[Segment] = []
    for segment in segments:
        if joined and joined[-1].kind == segment.kind != "all_reasoning":
            joined[-1] = Segment(segment.kind, joined[-1].text + segment.text)
        else:
            joined.append(segment)
    return joined
