"""Splits an answer that is written in channels, as gpt-oss writes it (https://cookbook.openai.com/articles/openai-harmony):

    <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…

`analysis` is reasoning, `final` the answer, `commentary` to nobody is part of it; what is addressed to a function
(`to=functions.NAME`) is a tool call.
"""

from __future__ import annotations

import re

from engine.text.segments import Kind, Segment, first_of, joined, possible_mark

MESSAGE = "<|message|>"
OPENINGS = ("<|channel|>", "<|start|>")
MARKS = (*OPENINGS, "<|constrain|>", MESSAGE, "<|end|>", "<|call|>", "<|return|>")
_BODY_ENDS = (*OPENINGS, "<|end|>", "<|call|>", "<|return|>")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_RECIPIENT = re.compile(r"\bto=([\w.:\-]+)")
ANALYSIS_AT_END = re.compile(r"<\|channel\|>analysis<\|message\|>\s*\Z")


class ChannelSplitter:
    """As ReasoningSplitter, for text that begins with a channel."""

    def __init__(self) -> None:
        self._pending = ""
        self._kind: Kind | None = None  # of the message being read; None: its head is
        self._begun: set[Kind] = set()
        self._is_fresh = False  # nothing of the present message has been passed on

    @property
    def reasoning(self) -> bool:
        return self._kind == "reasoning"

    def push(self, text: str) -> list[Segment]:
        self._pending += text
        return joined(self._consume(final=False))

    def finish(self) -> list[Segment]:
        segments = self._consume(final=True)
        self._end_message(segments)
        return joined(segments)

    def _consume(self, final: bool) -> list[Segment]:
        segments: list[Segment] = []
        while self._pending:
            if self._kind is None:
                head, mark, rest = self._pending.partition(MESSAGE)
                if not mark:
                    break  # the end of a head that never came: there is nothing to show
                self._pending = rest
                self._begin_message(head, segments)
                continue
            end = first_of(self._pending, _BODY_ENDS)
            if end is None:
                held = 0 if final else possible_mark(self._pending, _BODY_ENDS)
                self._take(len(self._pending) - held, segments)
                break
            self._take(end[0], segments)
            self._end_message(segments)
        return segments

    def _begin_message(self, head: str, segments: list[Segment]) -> None:
        channel, recipient = _CHANNEL.search(head), _RECIPIENT.search(head)
        if recipient is not None:
            self._kind = "call"
            segments.append(Segment("call", recipient.group(1) + MESSAGE))
        else:
            self._kind = "reasoning" if channel is not None and channel.group(1) == "analysis" else "answer"
        self._is_fresh = True

    def _take(self, length: int, segments: list[Segment]) -> None:
        text, self._pending = self._pending[:length], self._pending[length:]
        assert self._kind is not None
        if self._is_fresh and self._kind != "call":
            text = text.lstrip()
        if not text:
            return
        if self._is_fresh and self._kind in self._begun and self._kind != "call":
            text = "\n\n" + text  # two messages of one kind are two paragraphs
        self._is_fresh = False
        self._begun.add(self._kind)
        segments.append(Segment(self._kind, text))

    def _end_message(self, segments: list[Segment]) -> None:
        if self._kind == "call":
            segments.append(Segment("call_end", ""))
        self._kind = None
