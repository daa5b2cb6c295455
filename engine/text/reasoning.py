"""Splits a streamed answer into reasoning, answer and tool calls.

Models put their reasoning between tags such as <think> and </think>, or into a channel (`channels`). What counts:
- an opening tag only at the very start of the text (models that talk *about* tags write them later);
- a closing tag outside a fenced code block; without any opening tag, only when it stands alone on its line
  (some prompt templates open the block themselves): then everything before it turns out to be reasoning;
- a block that is never closed is reasoning to its end, unless an unclosed code fence hid the closing tag;
- tool calls stand in the answer (`tool_calls`); a section of them ends the reasoning too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from engine.text import channels, tool_calls
from engine.text.channels import ChannelSplitter
from engine.text.segments import Fences, Segment, fence_marks, first_of, joined, possible_mark
from engine.text.tool_calls import CallSplitter, ToolCall, parse_calls

TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<seed:think>": "</seed:think>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",  # Kimi-VL
    "<|START_THINKING|>": "<|END_THINKING|>",  # Command
    "<|inner_prefix|>": "<|inner_suffix|>",  # Apertus
    "<|channel>thought": "<channel|>",  # Gemma 4
}
# Control tokens that say what an answer's parts are: they belong to its text, unlike all others.
MARKS = frozenset({*TAGS, *TAGS.values(), *channels.MARKS, *tool_calls.MARKS, "<|channel>"})
_OPEN_AT_END = re.compile("(" + "|".join(map(re.escape, TAGS)) + r")\s*\Z")


@dataclass(frozen=True, slots=True)
class Split:
    reasoning: str
    answer: str
    closed: bool  # False: the text ended while still reasoning
    calls: tuple[ToolCall, ...] = ()

    @property
    def said(self) -> str:
        """The answer and, in plain words, what was called: for a reader's clipboard and a model's history."""
        if not self.calls:
            return self.answer
        return "\n\n".join(
            filter(None, [self.answer.strip(), *(f"{name} {told}".strip() for name, told in self.calls)])
        )


def opened_reasoning(prompt: str) -> str:
    """The opening mark, white space included, that a rendered prompt ends with, so that the answer begins inside the
    block; else nothing."""
    end = prompt[-64:]
    found = _OPEN_AT_END.search(end) or channels.ANALYSIS_AT_END.search(end)
    return found.group(0) if found else ""


class ReasoningSplitter:
    """Feed text with `push`, end with `finish`; segments come in order."""

    def __init__(self) -> None:
        self._start = ""  # held while it is open whether the text is in channels
        self._inner: TagSplitter | ChannelSplitter | None = None
        self._calls = CallSplitter()

    @property
    def reasoning(self) -> bool:
        """Whether the text stands inside a reasoning block now."""
        return self._inner is not None and self._inner.reasoning

    @property
    def is_settled(self) -> bool:
        """Whether no later part of the text can stand inside a reasoning block; what came before may still turn out to
        be reasoning."""
        return isinstance(self._inner, TagSplitter) and self._inner.answering

    def push(self, text: str) -> list[Segment]:
        if self._inner is None:
            self._start += text
            if not self._choose(final=False):
                return []
            text, self._start = self._start, ""
        assert self._inner is not None
        return self._with_calls(self._inner.push(text))

    def finish(self) -> list[Segment]:
        segments: list[Segment] = []
        if self._inner is None:
            self._choose(final=True)
            assert self._inner is not None
            segments = self._inner.push(self._start)
        return joined([*self._with_calls([*segments, *self._inner.finish()]), *self._calls.finish()])

    def _choose(self, final: bool) -> bool:
        text = self._start.lstrip()
        if text.startswith(channels.OPENINGS):
            self._inner = ChannelSplitter()
        elif final or (text and not any(mark.startswith(text) for mark in channels.OPENINGS)):
            self._inner = TagSplitter()
        return self._inner is not None

    def _with_calls(self, segments: list[Segment]) -> list[Segment]:
        if isinstance(self._inner, ChannelSplitter):
            return segments
        found: list[Segment] = []
        for segment in segments:
            found += self._calls.push(segment.text) if segment.kind == "answer" else [segment]
        return joined(found)


class TagSplitter:
    """Reasoning between tags, and the answer after it."""

    def __init__(self) -> None:
        self._state: Literal["start", "reasoning", "answer"] = "start"
        self._closings = tuple(TAGS.values())
        self._may_turn = True  # a lone closing tag may still turn the answer so far into reasoning
        self._pending = ""
        self._fences = Fences()
        self._trim = False  # drop white space at the start of what follows a tag

    @property
    def reasoning(self) -> bool:
        return self._state == "reasoning"

    @property
    def answering(self) -> bool:
        return self._state == "answer"

    def push(self, text: str) -> list[Segment]:
        self._pending += text
        return joined(self._consume(final=False))

    def finish(self) -> list[Segment]:
        return joined(self._consume(final=True))

    def _consume(self, final: bool) -> list[Segment]:
        segments: list[Segment] = []
        if self._state == "start" and not self._open(final):
            return segments
        while self._pending:
            tag = first_of(self._pending, self._closings) if self._looks_for_closing else None
            end = self._pending.find("\n") + 1 or len(self._pending)
            if tag is not None and tag[0] < end:
                if not self._close(tag[0], tag[1], segments, final):
                    break
                continue
            whole = final or self._pending[:end].endswith("\n") or not self._looks_for_closing
            held = 0 if whole else possible_mark(self._pending, self._closings)
            self._take(end - held, segments)
            if held:
                break
        return segments

    @property
    def _looks_for_closing(self) -> bool:
        return not self._fences.fence and (self._state == "reasoning" or self._may_turn)

    def _open(self, final: bool) -> bool:
        """Leave the start state once it is clear whether the text begins with an opening tag."""
        text = self._pending.lstrip()
        for tag in TAGS:
            if text.startswith(tag):
                self._closings = (TAGS[tag], tool_calls.KIMI_SECTION)
                self._pending, self._state, self._trim, self._may_turn = text[len(tag) :], "reasoning", True, False
                return True
        if not final and (not text or any(tag.startswith(text) for tag in TAGS)):
            return False
        self._state = "answer"
        return True

    def _close(self, position: int, tag: str, segments: list[Segment], final: bool) -> bool:
        """Handle a closing tag in the current line; False when more text is needed to judge it."""
        after = self._pending[position + len(tag) :]
        line = self._fences.line + self._pending[:position]
        if self._state == "answer":
            rest = after.split("\n", 1)[0]
            alone = not line.strip() and not rest.strip()
            if alone and "\n" not in after and not final:
                return False
            if not alone:
                self._take(position + len(tag), segments)
                return True
        if fence_marks(line):
            self._take(position + len(tag), segments)
            return True
        self._take(position, segments)
        if self._state == "answer":
            segments.append(Segment("all_reasoning", ""))
        self._pending, self._state = tag + after if tag == tool_calls.KIMI_SECTION else after, "answer"
        self._trim, self._may_turn = True, False
        self._fences.restart()
        return True

    def _take(self, length: int, segments: list[Segment]) -> None:
        """Emit the pending text's first `length` characters, which hold at most one line end, at their end."""
        text, self._pending = self._pending[:length], self._pending[length:]
        self._fences.take(text)
        if self._trim:
            text = text.lstrip()
            self._trim = not text
        if text:
            segments.append(Segment("reasoning" if self._state == "reasoning" else "answer", text))


def split_reasoning(text: str) -> Split:
    """A complete text at once. Where an unclosed code fence hid the closing tag, the first hidden one counts."""
    splitter = ReasoningSplitter()
    reasoning = answer = call = ""
    calls: list[ToolCall] = []
    segments = splitter.push(text)
    is_reasoning = splitter.reasoning
    for kind, part in [*segments, *splitter.finish()]:
        match kind:
            case "reasoning":
                reasoning += part
            case "answer":
                answer += part
            case "call":
                call += part
            case "call_end":
                calls += parse_calls(call)
                call = ""
            case "all_reasoning":
                reasoning, answer = reasoning + answer, ""
    hidden = first_of(reasoning, TAGS.values()) if is_reasoning else None
    if hidden is not None:
        position, tag = hidden
        return Split(reasoning[:position].rstrip(), reasoning[position + len(tag) :].lstrip(), True)
    return Split(reasoning.rstrip(), answer, not is_reasoning, tuple(calls))
