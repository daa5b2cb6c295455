"""Whether more of an open block is only more words, so that nothing before them needs to be parsed again."""

from __future__ import annotations

import re

# A last line that begins with a letter, after its markers: whatever follows, it stays what it is.
_SETTLED = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)]|#{1,6}|>)[ \t]+)*[^\W\d_]")
# Characters that mean something in CommonMark, tables, formulas or addresses, wherever they stand in a line.
_MEANS_SOMETHING = re.compile(r"[\\`*_\[\]()<>&$~|#:/@^=+\-{}!;\n\r\t\u2028\ufffc\x00]")


def is_plain_continuation(before: str, after: str) -> bool:
    """`after` is `before` and words at its last line's end that change the meaning of nothing."""
    if not before or not after.startswith(before):
        return False
    if before[-1].isspace() or _MEANS_SOMETHING.match(before[-1]) or _MEANS_SOMETHING.search(after, len(before)):
        return False
    line = before[before.rfind("\n") + 1 :]
    return "://" not in line and _SETTLED.match(line) is not None
