from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from engine.errors import EngineError
from engine.text.long_runs import longest_run, with_stack_for
from engine.text.tokenizer import Tokenizer
from tests.support.gguf_writer import GGUFBuilder
from tests.support.vocabularies import CONTROL, bpe_vocabulary


@pytest.mark.parametrize(
    ("text", "length"), [("", 0), ("hello world", 5), ("a    b", 4), ("x12345!", 5), ("====", 4), ("漢字漢字 a", 4)]
)
def test_longest_run(text: str, length: int) -> None:
    assert longest_run(text) == length


@pytest.mark.parametrize("character", ["=", "a", " ", "漢"])
@pytest.mark.parametrize("pre", ["deepseek-llm", "falcon"])
def test_a_long_run_of_one_character(load: Callable[[GGUFBuilder], Tokenizer], pre: str, character: str) -> None:
    """Overflowed an ordinary stack, and with it ended the process."""
    tokenizer = load(bpe_vocabulary([("<|a|>", CONTROL)], pre=pre))
    ids = tokenizer.encode(character * 60_000, add_special=False)
    assert tokenizer.decode(ids) == character * 60_000


def test_a_run_beyond_any_stack_is_refused() -> None:
    with pytest.raises(EngineError, match="2,000,000"):
        with_stack_for("=" * 2_000_000, lambda: None)


def test_errors_and_stack_size_come_back() -> None:
    before = threading.stack_size()

    def fail() -> None:
        raise ValueError("inner")

    with pytest.raises(ValueError, match="inner"):
        with_stack_for("=" * 10_000, fail)
    assert threading.stack_size() == before
