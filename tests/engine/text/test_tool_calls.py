"""Tool calls of every format: name and arguments, and what only looks like one."""

from __future__ import annotations

import json

import pytest

from engine.text.reasoning import Split, split_reasoning
from engine.text.tool_calls import ToolCall, parse_calls

PARIS = json.dumps({"city": "Paris"}, indent=2)
WEATHER = ToolCall("weather", PARIS)
JSON = '{"name": "weather", "arguments": {"city": "Paris"}}'


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>\n{JSON}\n</tool_call>",  # Hermes, Qwen
        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>",  # GLM
        "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>",  # Qwen
        '<minimax:tool_call>\n<invoke name="weather">\n<parameter name="city">Paris</parameter>\n</invoke>\n'
        "</minimax:tool_call>",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>"
        '{"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>',  # Kimi
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n"
        '{"city": "Paris"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>"
        '{"city": "Paris"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        f"[TOOL_CALLS][{JSON}]",  # Mistral
        '[TOOL_CALLS]weather[ARGS]{"city": "Paris"}',
        '<|python_tag|>{"name": "weather", "parameters": {"city": "Paris"}}',  # Llama 3
        f"<|tool_call|>[{JSON}]",  # Granite
        '<|tool_call>call:weather{"city": "Paris"}<tool_call|>',  # Gemma 4
    ],
)
def test_every_format(text: str) -> None:
    assert split_reasoning(text) == Split("", "", True, (WEATHER,))
    before = split_reasoning(f"<think>hm</think>Let me look.\n{text}")
    assert (before.reasoning, before.answer.strip(), before.calls) == ("hm", "Let me look.", (WEATHER,))


def test_arguments_that_are_no_json_are_shown_as_they_stand() -> None:
    found = split_reasoning('<|tool_call_start|>[weather(city="Paris")]<|tool_call_end|>').calls
    assert found == (ToolCall("weather", '(city="Paris")'),)
    assert parse_calls("nobody knows") == (ToolCall("", "nobody knows"),)
    assert parse_calls('{"name": "x", "arguments": "{broken"}') == (ToolCall("x", "{broken"),)
    assert parse_calls('{"name": 5}') == (ToolCall("", '{"name": 5}'),)


def test_several_calls_in_order() -> None:
    text = f"<tool_call>{JSON}</tool_call>\n<tool_call>{JSON.replace('Paris', 'Rome')}</tool_call>"
    assert [json.loads(call.arguments)["city"] for call in split_reasoning(text).calls] == ["Paris", "Rome"]
    assert len(split_reasoning(f"[TOOL_CALLS][{JSON}, {JSON}]").calls) == 2
    assert len(split_reasoning("[TOOL_CALLS]a[ARGS]{}[TOOL_CALLS]b[ARGS]{}").calls) == 2


def test_a_call_that_was_cut_off_is_a_call() -> None:
    found = split_reasoning('<tool_call>\n{"name": "weather", "argu')
    assert (found.answer, found.calls) == ("", (ToolCall("", '{"name": "weather", "argu'),))


@pytest.mark.parametrize(
    ("text", "calls", "answer"),
    [
        (f"<tool_call>{JSON}</tool_call></tool_call> and more", (WEATHER,), "</tool_call> and more"),
        (f"<tool_call>{JSON}</tool_call>\n</tool_call>\nDone.", (WEATHER,), "</tool_call>\nDone."),
        (f"</tool_call>{JSON}", (), f"</tool_call>{JSON}"),
        (f"<tool_call><tool_call>{JSON}</tool_call>", (ToolCall("", f"<tool_call>{JSON}"),), ""),
    ],
)
def test_a_malformed_call_loses_nothing_and_ends_nothing(text: str, calls: tuple[ToolCall, ...], answer: str) -> None:
    found = split_reasoning(text)
    assert (found.calls, found.answer) == (calls, answer)


def test_a_section_of_calls_ends_the_reasoning() -> None:
    text = "<think>look it up<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
    text += '<|tool_call_argument_begin|>{"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>'
    assert split_reasoning(text) == Split("look it up", "", True, (WEATHER,))


@pytest.mark.parametrize(
    "text",
    [
        "A model writes <tool_call> and </tool_call> around it.",
        f"```xml\n<tool_call>{JSON}</tool_call>\n```\n",
        "The mark is `[TOOL_CALLS]`, then JSON.",
        "Kimi writes `<|tool_call_begin|>` first.",
        "~~~\n<|python_tag|>\n~~~\n",
    ],
)
def test_talking_about_calls_is_none(text: str) -> None:
    assert split_reasoning(text) == Split("", text, True)


@pytest.mark.parametrize(
    "text", ['{"name": "x", "arguments": {"a": "\\ud800"}}', "[" * 5000, "<parameter=x>" * 5000, "9" * 10_000, "\0"]
)
def test_hostile_arguments_are_text(text: str) -> None:
    for call in parse_calls(text):
        call.arguments.encode()
        call.name.encode()
