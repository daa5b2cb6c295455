from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.reasoning import TAGS, ReasoningSplitter, Split, opens_reasoning, split_reasoning

FENCED = "```html\n<b></think></b>\n```\n"


@pytest.mark.parametrize(
    ("text", "opened", "expected"),
    [
        ("plain answer", False, Split("", "plain answer", True)),
        ("<think>why</think>because", False, Split("why", "because", True)),
        ("\n <think>\nwhy\n</think>\n\nbecause", False, Split("why", "because", True)),
        ("<think></think>\n\nfast", False, Split("", "fast", True)),  # reasoning switched off
        ("<think>never closed", False, Split("never closed", "", False)),  # stopped while thinking
        ("why\n</think>\n\nbecause", True, Split("why", "because", True)),  # the prompt had opened it
        ("still thinking", True, Split("still thinking", "", False)),
        ("why\n</think>\n\nbecause", False, Split("why", "because", True)),  # only a closing tag
        ("use `</think>` to close", False, Split("", "use `</think>` to close", True)),
        ("</think> in a line", False, Split("", "</think> in a line", True)),
        (FENCED + "done", False, Split("", FENCED + "done", True)),
        ("```\n</think>\n```\n", False, Split("", "```\n</think>\n```\n", True)),
        ("<think>see\n" + FENCED + "ok</think>yes", False, Split("see\n" + FENCED + "ok", "yes", True)),
        ("<think>see\n```\ncode</think>yes", False, Split("see\n```\ncode", "yes", True)),  # fence left open
        ("<think>a</think>write <think>b</think>", False, Split("a", "write <think>b</think>", True)),
        ("<think>a</think>x\n</think>\ny", False, Split("a", "x\n</think>\ny", True)),
        ("about <think> tags", False, Split("", "about <think> tags", True)),
        ("<think", False, Split("", "<think", True)),
        ("<think>a</thin", False, Split("a</thin", "", False)),
        ("[THINK]a[/THINK]b", False, Split("a", "b", True)),
        ("<think>a</thinking>b</think>c", False, Split("a</thinking>b", "c", True)),
        ("~~~~\n~~~\n</think>\n~~~~\n", False, Split("", "~~~~\n~~~\n</think>\n~~~~\n", True)),
        ("", False, Split("", "", True)),
        ("", True, Split("", "", False)),
    ],
)
def test_whole_texts(text: str, opened: bool, expected: Split) -> None:
    assert split_reasoning(text, opened=opened) == expected


@pytest.mark.parametrize(("opening", "closing"), TAGS.items())
def test_every_pair_of_tags(opening: str, closing: str) -> None:
    assert split_reasoning(f"{opening}why{closing}because") == Split("why", "because", True)
    assert opens_reasoning(f"<|assistant|>{opening}\n")
    assert not opens_reasoning(f"<|assistant|>{opening}\n\n{closing}\n\n")


def streamed(parts: list[str], opened: bool) -> tuple[str, str]:
    splitter, texts = ReasoningSplitter(opened=opened), {"reasoning": "", "answer": ""}
    segments = [segment for part in parts for segment in splitter.push(part)] + splitter.finish()
    for kind, text in segments:
        if kind == "all_reasoning":
            texts = {"reasoning": texts["reasoning"] + texts["answer"], "answer": ""}
        else:
            assert text
            texts[kind] += text
    return texts["reasoning"], texts["answer"]


PIECES = ["<think>", "</think>", "<thi", "nk>", "</", "think>", "\n", "```\n", "```", "a", " ", "`", "~~~\n"]


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.data(), st.booleans())
def test_the_way_a_text_is_cut_changes_nothing(pieces: list[str], data: st.DataObject, opened: bool) -> None:
    text = "".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert streamed(parts, opened) == streamed([text], opened)
    assert streamed(list(text), opened) == streamed([text], opened)


def test_text_is_passed_on_at_once() -> None:
    splitter = ReasoningSplitter()
    assert splitter.push("<th") == []
    assert splitter.push("ink>Let me") == [("reasoning", "Let me")]
    assert splitter.push(" see</thi") == [("reasoning", " see")]
    assert splitter.push("nk>\n\nYes") == [("answer", "Yes")]
    assert splitter.push(" </think>") == [("answer", " </think>")]
