from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.detokenizer import Detokenizer
from engine.text.tokenizer import Tokenizer
from tests.support.vocabularies import FIRST_BYTE

TEXTS = ["🙂", "漢字かな交じり文", "👩‍👩‍👧‍👦 é ñ ü", "a🇩🇪b", "ascii"]


class Bytes:
    """One byte per token."""

    def piece(self, token: int) -> bytes:
        return bytes([token])


@pytest.mark.parametrize("text", TEXTS)
def test_one_byte_per_token(small_tokenizer: Tokenizer, text: str) -> None:
    """Characters come out whole, in the moment their last byte arrives; no U+FFFD on the way."""
    detokenizer = Detokenizer(small_tokenizer)
    steps = [detokenizer.push(FIRST_BYTE + byte) for byte in text.encode()]
    assert "".join(steps) == text
    assert [step for step in steps if step] == list(text)
    assert detokenizer.flush() == ""


@given(st.text())
def test_any_text(text: str) -> None:
    detokenizer = Detokenizer(Bytes())
    assert "".join(detokenizer.push(byte) for byte in text.encode()) + detokenizer.flush() == text


@given(st.binary())
def test_any_bytes(data: bytes) -> None:
    """Invalid bytes show as U+FFFD, as Python decodes them all at once."""
    detokenizer = Detokenizer(Bytes())
    streamed = "".join(detokenizer.push(byte) for byte in data) + detokenizer.flush()
    assert streamed == data.decode("utf-8", "replace")


def test_an_answer_cut_within_a_character() -> None:
    detokenizer = Detokenizer(Bytes())
    assert [detokenizer.push(byte) for byte in "a🙂".encode()[:3]] == ["a", "", ""]
    assert detokenizer.flush() == "\ufffd"
    assert detokenizer.flush() == ""


def test_control_tokens_are_silent(starter_tokenizer: Tokenizer) -> None:
    detokenizer = Detokenizer(starter_tokenizer)
    assert "".join(map(detokenizer.push, [1, 19556, 2, 905, 0])) == "Hello world"
