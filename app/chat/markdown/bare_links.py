"""Addresses that stand in the text without marks become links: those that begin with http:// or https:// alone.

Not linkify-it-py: of its 2,530 lines (uc-micro-py included) these 40 are what is wanted here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

_ADDRESS = re.compile(r"(?<![\w/])https?://[^\s<>\"`|。，；：！？、（）【】《》“”]+")
_AFTER = ".,;:!?'*_~"  # ends the sentence, and not the address


def use_bare_links(parser: MarkdownIt) -> None:
    parser.core.ruler.push("bare_links", _find)


def _find(state: StateCore) -> None:
    for token in state.tokens:
        if token.children and "://" in token.content:
            token.children = _linked(token.children)


def _linked(children: list[Token]) -> list[Token]:
    found: list[Token] = []
    inside = 0  # of a link already
    for token in children:
        inside += (token.type == "link_open") - (token.type == "link_close")
        found.extend([token] if inside or token.type != "text" else _cut(token))
    return found


def _cut(token: Token) -> list[Token]:
    pieces: list[Token] = []
    end = 0
    for match in _ADDRESS.finditer(token.content):
        address = _trimmed(match.group())
        pieces.append(_text(token, token.content[end : match.start()]))
        pieces.append(token.copy(type="link_open", tag="a", nesting=1, content="", attrs={"href": address}))
        pieces.append(_text(token, address))
        pieces.append(token.copy(type="link_close", tag="a", nesting=-1, content=""))
        end = match.start() + len(address)
    return [*pieces, _text(token, token.content[end:])] if pieces else [token]


def _text(token: Token, content: str) -> Token:
    return token.copy(content=content)


def _trimmed(address: str) -> str:
    """Without the sentence's marks, and without a bracket that was opened before the address."""
    while True:
        shorter = address.rstrip(_AFTER)
        for opening, closing in ("()", "[]"):
            if shorter.endswith(closing) and shorter.count(closing) > shorter.count(opening):
                shorter = shorter[:-1]
        if shorter == address:
            return address
        address = shorter
