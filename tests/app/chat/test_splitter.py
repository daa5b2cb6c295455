"""Streaming Markdown is cut the same way however it arrives."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from app.chat.markdown.splitter import LINE_CHARS, PIECE_LINES, BlockSplitter

TEXT = """# Title
Hello **world**, this
is a paragraph.

- a
- b

  more b
  ```py
  x

  y
  ```
- c

Text
```python
def f():

    return 1
```
after
~~~
tilde
```
~~~

| a | b |
|---|---|
| 1 | 2 |

    indented

    code

> quote

---
end"""


def cut(*pieces: str) -> list[tuple[str, str, str]]:
    splitter = BlockSplitter()
    for piece in pieces:
        splitter.feed(piece)
    splitter.finish()
    return [(block.kind, block.source, block.language) for block in splitter.blocks]


def test_blocks_of_a_typical_answer():
    assert cut(TEXT) == [
        ("text", "# Title", ""),
        ("text", "Hello **world**, this\nis a paragraph.", ""),
        ("text", "- a\n- b\n\n  more b\n  ```py\n  x\n\n  y\n  ```\n- c", ""),
        ("text", "Text", ""),
        ("code", "def f():\n\n    return 1", "python"),
        ("text", "after", ""),
        ("code", "tilde\n```", ""),
        ("text", "| a | b |\n|---|---|\n| 1 | 2 |", ""),
        ("text", "    indented\n\n    code", ""),
        ("text", "> quote", ""),
        ("text", "---\nend", ""),
    ]


def test_every_single_character_cut():
    assert cut(*TEXT) == cut(TEXT)


LINES = st.sampled_from(
    ["", "word", "- item", "1. one", "```", "```py", "~~~", "    four", "# head", "> q", "---", "| a |", "`", "\t- x"]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(LINES, max_size=25), st.data())
def test_any_way_of_arriving_gives_the_same_blocks(lines, data):
    text = "\n".join(lines)
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    assert cut(*pieces) == cut(text)


@settings(max_examples=100, deadline=None)
@given(st.lists(LINES, max_size=25))
def test_no_word_is_lost(lines):
    text = "\n".join(lines)
    words = sum(source.count("word") for _, source, _ in cut(text))
    assert words == text.count("word")


def test_closed_blocks_never_change():
    splitter = BlockSplitter()
    seen: dict[int, str] = {}
    for piece in TEXT:
        first = splitter.feed(piece)
        for index, source in seen.items():
            if index < first:
                assert splitter.blocks[index].source == source
        seen = {i: block.source for i, block in enumerate(splitter.blocks) if block.closed}


def test_an_unclosed_fence_is_code_to_the_end():
    assert cut("```js\nlet a = 1\n\n# not a heading") == [("code", "let a = 1\n\n# not a heading", "js")]


@pytest.mark.parametrize("lines", [PIECE_LINES - 1, PIECE_LINES, PIECE_LINES * 3 + 5])
def test_long_code_comes_in_pieces_and_nothing_is_lost(lines):
    code = "\n".join(f"line {i}" for i in range(lines))
    splitter = BlockSplitter()
    splitter.feed(f"```\n{code}\n```\n")
    splitter.finish()
    assert "\n".join(block.source for block in splitter.blocks) == code
    assert [block.part for block in splitter.blocks] == list(range(len(splitter.blocks)))
    assert all(block.source.count("\n") < PIECE_LINES for block in splitter.blocks)


def test_a_line_without_end_is_cut_at_spaces():
    text = "word " * (LINE_CHARS // 2)
    splitter = BlockSplitter()
    splitter.feed(text)
    splitter.finish()
    assert len(splitter.blocks) > 1
    assert sum(block.source.count("word") for block in splitter.blocks) == LINE_CHARS // 2


def test_a_long_list_is_cut_between_items_only():
    text = "\n".join(f"{i}. item {i}\n   more of it" for i in range(1, 400))
    splitter = BlockSplitter()
    splitter.feed(text)
    splitter.finish()
    assert len(splitter.blocks) > 1
    assert all(block.source[0].isdigit() for block in splitter.blocks)
