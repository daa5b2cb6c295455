"""The Markdown of answers: CommonMark, tables, strike-through, formulas. HTML is text; nothing is ever loaded."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from app.chat.markdown.bare_links import use_bare_links
from app.chat.markdown.math_rules import use_math

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # 40 ms: not before the window is on screen

    parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "linkify": False})
    parser.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline"])
    use_math(parser)
    use_bare_links(parser)
    return parser


def parse(source: str) -> list[Token]:
    return _parser().parse(source)


def warm_up() -> None:
    """Import and build the parser before the first answer needs it."""
    parse("warm *up*")
