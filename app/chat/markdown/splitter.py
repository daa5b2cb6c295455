"""Cuts streaming Markdown into top-level blocks. Free of Qt.

A block that is closed never changes again, so what was parsed and laid out for it stays valid. Long blocks are cut
into pieces, so that the work for one screenful is bounded whatever a model writes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PIECE_LINES = 120  # of code
PIECE_CHARS = 3000  # of text; cut at the next line's end, list items stay whole
LINE_CHARS = 6000  # a single line longer than this is cut at a space

_FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})[ \t]*([^`\n]*)$")
_NESTED_FENCE = re.compile(r"^\s+(`{3,}|~{3,})|^\s*(?:[-*+]|\d{1,9}[.)])\s+(`{3,}|~{3,})")
_LIST_ITEM = re.compile(r"^( {0,3})([-*+]|\d{1,9}[.)])(\s|$)")
_RULE = re.compile(r"^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$")
_HEADING = re.compile(r"^ {0,3}#{1,6}(\s|$)")


@dataclass(slots=True)
class Block:
    """`source` is Markdown text, or for `code` the code itself. `part` counts the pieces of one long block."""

    kind: str  # "text" | "code"
    source: str = ""
    language: str = ""
    part: int = 0
    joined: bool = False  # the piece before ends inside a line
    closed: bool = False


class BlockSplitter:
    """Feed text as it comes; `blocks` is always complete, its last entry perhaps still open."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._pending = ""  # the last line, not ended yet
        self._lines: list[str] = []  # complete lines of the open block
        self._size = 0
        self._fence = ""  # of the open code block
        self._fence_indent = 0
        self._nested_fence = ""  # inside a list: blank lines there do not end the block
        self._blank = False  # the open text block's last line is blank
        self._is_list = False
        self._open: Block | None = None
        self._provisional = False  # the open block is an unfinished line, shown before it is decided

    def feed(self, text: str) -> int:
        """Append text. Returns the index of the first block that changed or is new."""
        first = max(0, len(self.blocks) - 1)
        self._drop_provisional()
        *lines, self._pending = (self._pending + text).split("\n")
        for line in lines:
            self._line(line.removesuffix("\r"))
        self._cut_long_line()
        self._show_open()
        return first

    def finish(self) -> int:
        """No more text comes. Returns as `feed` does."""
        first = max(0, len(self.blocks) - 1)
        self._drop_provisional()
        if self._pending:
            self._line(self._pending)
            self._pending = ""
        self._close()
        return first

    # --- lines ---

    def _line(self, line: str) -> None:
        if self._fence:
            self._code_line(line)
            return
        if self._nested_fence:
            self._append(line)
            if line.strip().startswith(self._nested_fence):
                self._nested_fence = ""
            return
        if not line.strip():
            if self._open is not None:
                self._append(line)
                self._blank = True
            return
        if self._starts_block(line):
            self._close()
        if (fence := _FENCE.match(line)) is not None and not (self._is_list and fence.group(1)):
            self._close()
            self._open_code(fence)
            return
        self._text_line(line)

    def _starts_block(self, line: str) -> bool:
        """Whether this line of text cannot belong to the open block."""
        if self._open is None:
            return False
        indented = line[0] in " \t" and (line.startswith(("  ", "\t")))
        item = _LIST_ITEM.match(line)
        if self._size > PIECE_CHARS and (not self._is_list or (item is not None and not item.group(1))):
            return True
        if _HEADING.match(line) and not indented:
            return True
        if not self._blank:
            return False
        if self._is_list:
            return not indented and (item is None or bool(_RULE.match(line)))
        return not (indented and line.startswith(("    ", "\t")) and self._lines[0].startswith(("    ", "\t")))

    def _text_line(self, line: str) -> None:
        if self._open is None:
            self._start(Block("text"))
            self._is_list = _LIST_ITEM.match(line) is not None and not _RULE.match(line)
        elif not self._is_list and _LIST_ITEM.match(line) and not _RULE.match(line):
            # A list may follow a paragraph without a blank line; from here on it is one.
            self._is_list = True
        self._blank = False
        self._append(line)
        if self._is_list and (nested := _NESTED_FENCE.match(line)) is not None:
            self._nested_fence = nested.group(1) or nested.group(2)
        elif _HEADING.match(line) and len(self._lines) == 1:
            self._close()

    def _open_code(self, fence: re.Match[str]) -> None:
        self._fence, self._fence_indent = fence.group(2), len(fence.group(1))
        words = fence.group(3).split()
        self._start(Block("code", language=words[0] if words else ""))

    def _code_line(self, line: str) -> None:
        stripped = line.strip()
        if stripped.startswith(self._fence) and not stripped.strip(self._fence[0]):
            self._close()
            return
        if len(self._lines) >= PIECE_LINES:
            self._next_piece()
        self._append(line[min(self._fence_indent, len(line) - len(line.lstrip(" "))) :])

    def _cut_long_line(self) -> None:
        while len(self._pending) > LINE_CHARS:
            cut = self._pending.rfind(" ", 1, LINE_CHARS) + 1 or LINE_CHARS
            line, self._pending = self._pending[:cut], self._pending[cut:]
            self._line(line)
            if self._fence:
                self._next_piece(joined=True)
            else:
                self._close()

    # --- the open block ---

    def _start(self, block: Block) -> None:
        self._open = block
        self._lines, self._size, self._blank = [], 0, False
        self.blocks.append(block)

    def _append(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1

    def _next_piece(self, *, joined: bool = False) -> None:
        """Close the open piece of code and go on with the next one."""
        assert self._open is not None
        fence, indent, block = self._fence, self._fence_indent, self._open
        self._close()
        self._fence, self._fence_indent = fence, indent
        self._start(Block("code", language=block.language, part=block.part + 1, joined=joined))

    def _close(self) -> None:
        if self._open is not None:
            self._open.source = self._joined()
            self._open.closed = True
        self._open = None
        self._fence = self._nested_fence = ""
        self._is_list = self._blank = False
        self._lines, self._size = [], 0

    def _joined(self) -> str:
        text = "\n".join(self._lines)
        return text if self._fence else text.rstrip("\n \t")

    def _show_open(self) -> None:
        """Give the open block its text so far, the unfinished line included."""
        line = self._pending
        if self._open is not None and self._fence:
            if line.strip() and not line.strip().strip(self._fence[0]):
                line = ""  # the closing fence, perhaps
            self._open.source = "\n".join([*self._lines, line]) if line else self._joined()
            return
        if line.strip() and self._blank and not self._is_list and self._starts_block(line):
            self._close()
        if line.lstrip().startswith(("```", "~~~")) or not line.strip().strip("`~"):
            line = ""  # an opening fence, perhaps
        if self._open is not None:
            self._open.source = "\n".join([*self._lines, line]).rstrip()
        elif line.strip():
            self._start(Block("text", line))
            self._provisional = True

    def _drop_provisional(self) -> None:
        if self._provisional:
            self.blocks.pop()
            self._open = None
            self._provisional = False
