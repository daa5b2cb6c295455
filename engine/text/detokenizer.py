"""Token ids to streamed text: a character whose bytes are spread over tokens comes out whole, and only once."""

from __future__ import annotations

import codecs
from typing import Protocol


class PieceSource(Protocol):
    def piece(self, token: int, /) -> bytes: ...


class Detokenizer:
    """Incremental: the texts of all `push` calls and of `flush` joined are the text of the answer.

    Control tokens are rendered where they tell the parts of an answer apart; `Tokenizer.piece` leaves all others empty.
    """

    def __init__(self, tokenizer: PieceSource) -> None:
        self._tokenizer = tokenizer
        self._rest = b""  # the beginning of a character

    def push(self, token: int) -> str:
        """Whole characters completed by `token`; empty while one is incomplete."""
        piece = self._tokenizer.piece(token)
        if not self._rest and piece.isascii():  # so it is in most answers
            return piece.decode()
        data = self._rest + piece
        text, used = codecs.utf_8_decode(data, "replace", False)
        self._rest = data[used:]
        return text

    def flush(self) -> str:
        """At the end of an answer: U+FFFD for a character that stayed incomplete, else nothing."""
        rest, self._rest = self._rest, b""
        return rest.decode("utf-8", "replace")
