r"""Markdown rules for formulas: \( \), \[ \], $$ $$ and $ $, where a dollar that means money stays a dollar.

A single dollar opens a formula only if no space follows it, and closes one only if no space stands before it and no
digit after it. Where the text between begins with a digit, it must also look like mathematics.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

MAX_LENGTH = 2000
_MATHEMATICAL = re.compile(r"[\\^_={}<>+*/]|^\S+$")
_PAIRS = (("$$", "$$", True), ("\\[", "\\]", True), ("\\(", "\\)", False))


def use_math(parser: MarkdownIt) -> None:
    parser.inline.ruler.before("escape", "math", _inline)
    parser.block.ruler.before("fence", "math_block", _block, {"alt": ["paragraph", "reference", "blockquote", "list"]})


def _inline(state: StateInline, silent: bool) -> bool:
    source, start = state.src, state.pos
    if source[start] not in "$\\":
        return False
    for opening, closing, display in _PAIRS:
        if source.startswith(opening, start):
            end = source.find(closing, start + len(opening))
            content = source[start + len(opening) : end] if end > 0 else ""
            if not content.strip() or len(content) > MAX_LENGTH:
                return False
            return _push(state, silent, content, end + len(closing), display)
    if source[start] != "$":
        return False
    end = _closing_dollar(source, start)
    return end > 0 and _push(state, silent, source[start + 1 : end], end + 1, False)


def _closing_dollar(source: str, start: int) -> int:
    """Where the formula that a single dollar opens at `start` ends, or -1 where the dollar is money."""
    before = source[start - 1] if start else " "
    if before.isalnum() or start + 1 >= len(source) or source[start + 1] in " \t\n$":
        return -1
    end = start
    while (end := source.find("$", end + 1)) > 0:
        if source[end - 1] == "\\":
            continue
        content = source[start + 1 : end]
        if "\n\n" in content or len(content) > MAX_LENGTH or source[end - 1] in " \t\n":
            return -1
        if source[end + 1 : end + 2].isdigit():
            return -1
        if content[0].isdigit() and not _MATHEMATICAL.search(content):
            return -1
        return end
    return -1


def _push(state: StateInline, silent: bool, content: str, end: int, display: bool) -> bool:
    if not silent:
        token = state.push("math_display" if display else "math_inline", "math", 0)
        token.content = content.strip()
    state.pos = end
    return True


def _block(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    r"""A formula that begins a line with $$ or \[ and ends one."""
    start = state.bMarks[first] + state.tShift[first]
    for opening, closing, display in _PAIRS:
        if not display or not state.src.startswith(opening, start):
            continue
        for line in range(first, last):
            begin = start + len(opening) if line == first else state.bMarks[line]
            text = state.src[begin : state.eMarks[line]].rstrip()
            if not text.endswith(closing) or (line == first and len(text) < len(closing) + 1):
                continue
            if silent:
                return True
            end = begin + len(text) - len(closing)
            token = state.push("math_block", "math", 0)
            token.content = state.src[start + len(opening) : end].strip()
            token.map = [first, line + 1]
            state.line = line + 1
            return bool(token.content)
    return False
