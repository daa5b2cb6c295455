"""Tool calls in an answer's text: where they begin and end, and what they ask for. Nothing is ever executed.

Formats: Hermes and Qwen (<tool_call>, JSON or <function=…>), GLM (<arg_key>), MiniMax, Kimi K2, DeepSeek, LFM2, Gemma,
Mistral, Llama 3 and Granite; harmony's come from `channels`. A mark counts outside code; one that looks like a plain
tag also has to begin its line, because models that talk about such tags write them in the middle of one.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from engine.text.segments import Fences, Segment, fence_marks, first_of, joined, possible_mark

# Opening → closing mark; without one the call goes on to the end of the answer.
TAGS = {
    "<tool_call>": "</tool_call>",
    "<minimax:tool_call>": "</minimax:tool_call>",
    "[TOOL_CALLS]": "",
    "<|tool_call_begin|>": "<|tool_call_end|>",
    "<｜tool▁call▁begin｜>": "<｜tool▁call▁end｜>",
    "<|tool_call_start|>": "<|tool_call_end|>",
    "<|tool_call>": "<tool_call|>",
    "<|tool_call|>": "",
    "<|python_tag|>": "",
}
KIMI_SECTION = "<|tool_calls_section_begin|>"
# Around several calls; they mean nothing to a reader.
_SECTIONS = (
    KIMI_SECTION,
    "<|tool_calls_section_end|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
)
_SEPARATORS = ("<|message|>", "<|tool_call_argument_begin|>", "<｜tool▁sep｜>", "[ARGS]")
MARKS = (*TAGS, *filter(None, TAGS.values()), *_SECTIONS, *_SEPARATORS)
_AT_LINE_START = frozenset({"<tool_call>", "<minimax:tool_call>"})
_OPENINGS = (*TAGS, *_SECTIONS)
_LONGEST_PARSED = 200_000  # characters; more is shown as it stands

_FUNCTION = re.compile(r"<(?:function=|invoke name=)\"?([\w.\-]+)\"?>")
_PARAMETER = re.compile(r"<parameter(?:=| name=)\"?([\w.\-]+)\"?>\n?(.*?)\n?</parameter>", re.DOTALL)
_ARGUMENT = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_CALL = re.compile(r"\[?(?:call:)?([\w.\-]+)\s*([({].*)", re.DOTALL)
_FENCED = re.compile(r"```(?:json)?\n(.*?)(?:\n```|\Z)", re.DOTALL)


class ToolCall(NamedTuple):
    """`arguments` are JSON where the model wrote them so that they can be read, else its own words."""

    name: str
    arguments: str


class CallSplitter:
    """Takes the answer's text and hands out `answer`, `call` and `call_end` segments."""

    def __init__(self) -> None:
        self._pending = ""
        self._fences = Fences()
        self._closing: str | None = None  # of the call that is being read
        self._has_text = False  # the call has some
        self._trim = False

    def push(self, text: str) -> list[Segment]:
        self._pending += text
        return joined(self._consume(final=False))

    def finish(self) -> list[Segment]:
        segments = self._consume(final=True)
        if self._closing is not None:
            self._end(segments)
        return joined(segments)

    def _consume(self, final: bool) -> list[Segment]:
        segments: list[Segment] = []
        while self._pending:
            step = self._answer_step if self._closing is None else self._call_step
            if not step(segments, final):
                break
        return segments

    def _answer_step(self, segments: list[Segment], final: bool) -> bool:
        """One line, or up to a mark; False where more text is needed."""
        end = self._pending.find("\n") + 1 or len(self._pending)
        line = self._pending[:end]
        found = None if self._fences.fence else first_of(line, _OPENINGS)
        if found is not None:
            position, mark = found
            before = self._fences.line + line[:position]
            is_code = fence_marks(before) or before.count("`") % 2
            counts = not is_code and (mark not in _AT_LINE_START or not before.strip())
            self._take(position if counts else position + len(mark), segments)
            if counts:
                self._pending = self._pending[len(mark) :]
                if mark in TAGS:
                    self._closing = TAGS[mark]
                self._trim = mark in _SECTIONS
            return True
        held = 0 if final or line.endswith("\n") or self._fences.fence else possible_mark(line, _OPENINGS)
        self._take(end - held, segments)
        return not held

    def _take(self, length: int, segments: list[Segment]) -> None:
        text, self._pending = self._pending[:length], self._pending[length:]
        self._fences.take(text)
        if self._trim:
            text = text.lstrip()
            self._trim = not text
        if text:
            segments.append(Segment("answer", text))

    def _call_step(self, segments: list[Segment], final: bool) -> bool:
        marks = (self._closing,) if self._closing else tuple(tag for tag, closing in TAGS.items() if not closing)
        end = first_of(self._pending, marks)
        if end is None:
            held = 0 if final else possible_mark(self._pending, marks)
            self._take_call(len(self._pending) - held, segments)
            return False
        self._take_call(end[0], segments)
        if self._closing:
            self._pending = self._pending[len(end[1]) :]
        self._end(segments)
        return True

    def _take_call(self, length: int, segments: list[Segment]) -> None:
        text, self._pending = self._pending[:length], self._pending[length:]
        if text:
            self._has_text = True
            segments.append(Segment("call", text))

    def _end(self, segments: list[Segment]) -> None:
        if self._has_text:
            segments.append(Segment("call_end", ""))
        self._closing, self._has_text, self._trim = None, False, True
        self._fences.restart()


def parse_calls(text: str) -> tuple[ToolCall, ...]:
    """What the text of a call asks for; one call without a name where it cannot be made out."""
    text = text.strip()
    calls = _parse(text) if len(text) <= _LONGEST_PARSED else (ToolCall("", text),)
    return tuple(ToolCall(_sound(name), _sound(arguments)) for name, arguments in calls)


def _parse(text: str) -> tuple[ToolCall, ...]:
    for separator in _SEPARATORS:
        if separator in text:
            name, _, arguments = text.partition(separator)
            if separator == "<｜tool▁sep｜>" and name == "function":
                name, _, arguments = arguments.partition("\n")
            return (ToolCall(_plain_name(name), _pretty(arguments)),)
    if (found := _from_json(text)) or (found := _from_tags(text)):
        return found
    if (match := _CALL.fullmatch(text)) is not None:
        return (ToolCall(match.group(1), _pretty(match.group(2).rstrip("]"))),)
    return (ToolCall("", text),)


def _from_json(text: str) -> tuple[ToolCall, ...]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    calls = value if isinstance(value, list) else [value]
    found = []
    for call in calls:
        if isinstance(call, dict) and isinstance(call.get("function"), dict):
            call = call["function"]
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            return ()
        found.append(ToolCall(call["name"], _as_json(call.get("arguments", call.get("parameters", {})))))
    return tuple(found)


def _from_tags(text: str) -> tuple[ToolCall, ...]:
    functions = list(_FUNCTION.finditer(text))
    calls = []
    for number, function in enumerate(functions):
        end = functions[number + 1].start() if number + 1 < len(functions) else len(text)
        calls.append(ToolCall(function.group(1), _as_json(dict(_PARAMETER.findall(text[function.end() : end])))))
    if calls:
        return tuple(calls)
    name, _, rest = text.partition("<arg_key>")
    if rest and name.strip():
        return (ToolCall(name.strip(), _as_json({k.strip(): v for k, v in _ARGUMENT.findall(text)})),)
    return ()


def _sound(text: str) -> str:
    """Without the halves of characters that JSON's escapes may spell."""
    return text.encode("utf-8", "replace").decode()


def _plain_name(name: str) -> str:
    """`functions.search:0` is `search`."""
    return re.sub(r":\d+$", "", name.strip()).removeprefix("functions.")


def _pretty(arguments: str) -> str:
    """JSON set out in lines, where it is JSON."""
    fenced = _FENCED.search(arguments)
    text = (fenced.group(1) if fenced else arguments).strip()
    try:
        return _as_json(json.loads(text))
    except (ValueError, RecursionError):
        return text


def _as_json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
