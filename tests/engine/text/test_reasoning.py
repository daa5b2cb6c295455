from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.reasoning import TAGS, ReasoningSplitter, Split, opened_reasoning, split_reasoning
from engine.text.segments import possible_mark
from engine.text.tool_calls import ToolCall

FENCED = "```html\n<b></think></b>\n```\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain answer", Split("", "plain answer", True)),
        ("<think>why</think>because", Split("why", "because", True)),
        ("\n <think>\nwhy\n</think>\n\nbecause", Split("why", "because", True)),
        ("<think></think>\n\nfast", Split("", "fast", True)),  # reasoning switched off
        ("<think>never closed", Split("never closed", "", False)),  # stopped while thinking
        ("why\n</think>\n\nbecause", Split("why", "because", True)),  # only a closing tag
        ("use `</think>` to close", Split("", "use `</think>` to close", True)),
        ("</think> in a line", Split("", "</think> in a line", True)),
        (FENCED + "done", Split("", FENCED + "done", True)),
        ("```\n</think>\n```\n", Split("", "```\n</think>\n```\n", True)),
        ("<think>see\n" + FENCED + "ok</think>yes", Split("see\n" + FENCED + "ok", "yes", True)),
        ("<think>see\n```\ncode</think>yes", Split("see\n```\ncode", "yes", True)),  # fence left open
        ("<think>a</think>write <think>b</think>", Split("a", "write <think>b</think>", True)),
        ("<think>a</think>x\n</think>\ny", Split("a", "x\n</think>\ny", True)),
        ("about <think> tags", Split("", "about <think> tags", True)),
        ("<think", Split("", "<think", True)),
        ("<think>a</thin", Split("a</thin", "", False)),
        ("[THINK]a[/THINK]b", Split("a", "b", True)),
        ("<think>a</thinking>b</think>c", Split("a</thinking>b", "c", True)),
        ("~~~~\n~~~\n</think>\n~~~~\n", Split("", "~~~~\n~~~\n</think>\n~~~~\n", True)),
        ("<|channel>thought\nwhy<channel|>because", Split("why", "because", True)),
        ("◁think▷why◁/think▷because", Split("why", "because", True)),
        ("<|", Split("", "<|", True)),
        ("", Split("", "", True)),
    ],
)
def test_whole_texts(text: str, expected: Split) -> None:
    assert split_reasoning(text) == expected


@pytest.mark.parametrize(("opening", "closing"), TAGS.items())
def test_every_pair_of_tags(opening: str, closing: str) -> None:
    assert split_reasoning(f"{opening}why{closing}because") == Split("why", "because", True)
    assert opened_reasoning(f"<|assistant|>{opening}\n") == f"{opening}\n"
    assert not opened_reasoning(f"<|assistant|>{opening}\n\n{closing}\n\n")


ANALYSIS = "<|channel|>analysis<|message|>"
FINAL = "<|channel|>final<|message|>"
NEXT = "<|end|><|start|>assistant"
CALL = "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>"
WEATHER = ToolCall("weather", '{\n  "city": "Paris"\n}')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{ANALYSIS}why{NEXT}{FINAL}because", Split("why", "because", True)),
        (f"{ANALYSIS}why{NEXT}{FINAL}because<|return|>", Split("why", "because", True)),
        (f"{FINAL}because", Split("", "because", True)),
        (f"{ANALYSIS}still thinking", Split("still thinking", "", False)),
        (f"{ANALYSIS}one{NEXT}{ANALYSIS}two{NEXT}{FINAL}x", Split("one\n\ntwo", "x", True)),
        (f"<|start|>assistant{FINAL}x", Split("", "x", True)),
        (f"<|channel|>commentary<|message|>Let me look.{NEXT}{FINAL}x", Split("", "Let me look.\n\nx", True)),
        (f'{ANALYSIS}a{NEXT}{CALL}{{"city":"Paris"}}<|call|>', Split("a", "", True, (WEATHER,))),
        (
            f"{ANALYSIS}a<|end|><|start|>assistant to=functions.weather<|channel|>commentary json"
            '<|message|>{"city":"Paris"}',
            Split("a", "", True, (WEATHER,)),
        ),
        (
            f"{ANALYSIS}say <think> and </think>{NEXT}{FINAL}<think>literal</think>",
            Split("say <think> and </think>", "<think>literal</think>", True),
        ),
        (f"{ANALYSIS}why{NEXT}<|channel|>fin", Split("why", "", True)),  # stopped inside a head
    ],
)
def test_channels(text: str, expected: Split) -> None:
    assert split_reasoning(text) == expected


def test_a_prompt_may_open_a_channel() -> None:
    assert opened_reasoning(f"<|start|>assistant{ANALYSIS}") == ANALYSIS
    assert not opened_reasoning(f"<|start|>assistant{FINAL}")


def streamed(parts: list[str]) -> tuple[str, str, list[str]]:
    splitter, texts, calls = ReasoningSplitter(), {"reasoning": "", "answer": "", "call": ""}, []
    segments = [segment for part in parts for segment in splitter.push(part)] + splitter.finish()
    for kind, text in segments:
        if kind == "all_reasoning":
            texts["reasoning"], texts["answer"] = texts["reasoning"] + texts["answer"], ""
        elif kind == "call_end":
            calls.append(texts["call"])
            texts["call"] = ""
        else:
            assert text
            texts[kind] += text
    assert not texts["call"]
    return texts["reasoning"], texts["answer"], calls


PIECES = ["<think>", "</think>", "<thi", "nk>", "</", "think>", "\n", "```\n", "```", "a", " ", "`", "~~~\n"]
PIECES += ["<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<|tool_calls_section_begin|>", "<|tool_call_begin|>"]
PIECES += ["<|channel|>", "analysis", "<|message|>", "<|end|>", "<|start|>", " to=x", "<|"]


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12), st.data())
def test_the_way_a_text_is_cut_changes_nothing(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert streamed(parts) == streamed([text])
    assert streamed(list(text)) == streamed([text])


def test_text_is_passed_on_at_once() -> None:
    splitter = ReasoningSplitter()
    assert splitter.push("<th") == []
    assert splitter.push("ink>Let me") == [("reasoning", "Let me")]
    assert splitter.push(" see</thi") == [("reasoning", " see")]
    assert splitter.push("nk>\n\nYes") == [("answer", "Yes")]
    assert splitter.push(" </think>") == [("answer", " </think>")]


@given(st.text("<|think>/[a", max_size=12))
def test_what_may_become_a_mark(text: str) -> None:
    marks = ("<think>", "<|channel|>", "[TOOL", "</think>")
    longest = max((n for mark in marks for n in range(1, len(mark)) if text.endswith(mark[:n])), default=0)
    assert possible_mark(text, marks) == longest
