"""Colours for code, by Pygments: (text, kind) runs. Free of Qt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pygments.lexer import Lexer

MAX_CHARS = 12_000  # in one piece; more would hold up the window
_NAME = re.compile(r"[A-Za-z0-9_+#.-]{1,30}")


def highlight(source: str, language: str) -> Iterator[tuple[str, str]]:
    """Runs of `source`, in order and complete; kind is "keyword", "string", …, or "" for plain text."""
    lexer = _lexer(language.lower()) if language and len(source) <= MAX_CHARS else None
    if lexer is None:
        yield source, ""
        return
    pending, pending_kind = "", ""
    for token, text in lexer.get_tokens(source):
        kind = _kind(str(token))
        if kind != pending_kind and text.strip():
            if pending:
                yield pending, pending_kind
            pending, pending_kind = text, kind
        else:
            pending += text
    yield pending, pending_kind


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    if not _NAME.fullmatch(language):
        return None
    try:
        return get_lexer_by_name(language, stripnl=False, stripall=False, ensurenl=False)
    except ClassNotFound:
        return None


@lru_cache(maxsize=512)
def _kind(token: str) -> str:
    """One of six kinds for a Pygments token type such as Token.Literal.String.Doc."""
    for part, kind in (
        ("Comment", "comment"),
        ("String", "string"),
        ("Number", "number"),
        ("Keyword.Type", "type"),
        ("Keyword", "keyword"),
        ("Operator.Word", "keyword"),
        ("Name.Function", "name"),
        ("Name.Tag", "name"),
        ("Name.Attribute", "type"),
        ("Name.Class", "type"),
        ("Name.Builtin", "type"),
        ("Name.Decorator", "name"),
        ("Name.Exception", "type"),
    ):
        if part in token:
            return kind
    return ""


def warm_up() -> None:
    """Import Pygments before the first code needs it."""
    list(highlight("x = 1", "python"))
