"""A tokenizer that answers while its vocabulary is still being read, as it would answer afterwards."""

from __future__ import annotations

import weakref
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from engine.text.tokenizer import Tokenizer
from engine.text.vocabulary import free_vocabulary
from engine.text.vocabulary_excerpt import Excerpt, VocabularyExcerpts

_LONGEST_TEXT = 2048  # characters; a longer one needs more of the vocabulary, and its first step takes longer anyway


class EarlyTokenizer(Tokenizer):
    """Encodes short texts from excerpts until `whole` brings a llama_model, and waits for it where only that knows.

    The vocabulary is given back with this object, even where nobody asked for it. Every method may raise what `whole`
    raises.
    """

    def __init__(self, excerpts: VocabularyExcerpts, first: Excerpt, whole: Future[Any], path: str | Path) -> None:
        """`first` is the excerpt for no text at all."""
        own = first.tokenizer
        self.path = Path(path)
        self.n_vocab = excerpts.n_vocab
        self.bos_id = None if own.bos_id is None else first.ids[own.bos_id]
        self.eos_id = None if own.eos_id is None else first.ids[own.eos_id]
        self.add_bos, self.suppressed_ids, self.warnings = own.add_bos, own.suppressed_ids, own.warnings
        self._pieces = {}
        self._stops = {}
        self._first = first
        self._excerpts: VocabularyExcerpts | None = excerpts
        self._whole = whole
        self._unwanted = weakref.finalize(self, whole.add_done_callback, free_vocabulary)

    def encode(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        excerpts = self._early()
        if excerpts is not None and len(text) <= _LONGEST_TEXT:
            excerpt = excerpts.excerpt(text)
            if excerpt is not None:
                return excerpt.encode(text, add_special=add_special, parse_special=parse_special)
        self._settle()
        return super().encode(text, add_special=add_special, parse_special=parse_special)

    def is_stop(self, token: int) -> bool:
        is_stop = self._stops.get(token)  # first, as it is asked between any two tokens
        if is_stop is not None:
            return is_stop
        self._expect_id(token)
        excerpts = self._early()
        if excerpts is not None and excerpts.is_plain(token):
            return False
        self._settle()
        return super().is_stop(token)

    def text(self, token: int) -> str:
        self._expect_id(token)
        excerpts = self._early()
        return excerpts.text(token) if excerpts is not None else super().text(token)

    def metadata(self, key: str) -> str | None:
        if self._early() is not None and not key.endswith("_token_id"):  # which an excerpt numbers anew
            return self._first.tokenizer.metadata(key)
        self._settle()
        return super().metadata(key)

    def _read_piece(self, token: int, special: bool) -> bytes:
        self._expect_id(token)
        excerpts = self._early()
        piece = excerpts.piece(token) if excerpts is not None else None
        if piece is not None:
            return piece
        self._settle()
        return super()._read_piece(token, special)

    def _early(self) -> VocabularyExcerpts | None:
        """The excerpts, as long as there is nothing better."""
        if self._excerpts is not None and self._whole.done():
            self._settle()
        return self._excerpts

    def _settle(self) -> None:
        """From now on all is answered from the whole vocabulary."""
        if self._excerpts is None:
            return
        model = self._whole.result()
        self._unwanted.detach()
        self._excerpts = None
        del self._first, self._whole
        super().__init__(model, self.path)
