"""GBNF grammars through llama.cpp. An invalid grammar is an error, never an unconstrained answer."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import numpy as np

from engine.errors import EngineError
from engine.text.candidates import Candidates, Logits
from engine.text.llama_library import collected_errors, llama

if TYPE_CHECKING:
    from engine.text.tokenizer import Tokenizer

# llama.cpp's grammar parser recurses per nesting level and per rule; these bounds keep its stack far from full.
_MAX_CHARACTERS = 1 << 17
_MAX_NESTING = 200
_MAX_RULES = 10_000


class GrammarError(EngineError):
    """A grammar cannot be parsed, or admits no token of the vocabulary at this point."""


class Grammar:
    """The state of one grammar along one answer. The start rule is `root`."""

    def __init__(self, text: str, tokenizer: Tokenizer) -> None:
        _expect_sane(text)
        lib = llama()
        with collected_errors() as errors:
            self._sampler = lib.llama_sampler_init_grammar(tokenizer.vocab, text.encode(), b"root")
        if not self._sampler:
            raise _refused("; ".join(errors) or "it has no rule named root")
        self._finalizer = weakref.finalize(self, lib.llama_sampler_free, self._sampler)
        self._tokenizer = tokenizer
        self._one = Candidates(1)

    def allows(self, token: int) -> bool:
        one = self._one.fill(np.zeros(1, np.float32), np.array([token], np.int32)).apply(self._sampler)
        return bool(one.data["logit"][0] == 0.0)

    def masked(self, logits: Logits, candidates: Candidates) -> Logits:
        """`logits` with -inf for every token that the grammar forbids now."""
        candidates.fill(logits).apply(self._sampler)
        masked: Logits = candidates.data["logit"].copy()
        if np.all(masked == -np.inf):
            raise GrammarError(
                "The grammar allows no further token, and this vocabulary cannot end the answer here.",
                done="The answer was ended.",
                remedy="Change the grammar.",
            )
        return masked

    def accept(self, token: int) -> None:
        """`token` must be allowed: llama.cpp throws through the C boundary otherwise."""
        llama().llama_sampler_accept(self._sampler, token)


def _expect_sane(text: str) -> None:
    if "\0" in text:
        raise _refused("it contains a NUL character")
    if len(text) > _MAX_CHARACTERS or text.count("::=") > _MAX_RULES:
        raise _refused(f"it is larger than {_MAX_RULES:,} rules or {_MAX_CHARACTERS:,} characters")
    depth = deepest = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    if deepest > _MAX_NESTING:
        raise _refused(f"it nests deeper than {_MAX_NESTING} parentheses")


def _refused(reason: str) -> GrammarError:
    return GrammarError(
        f"The grammar cannot be used: {reason}.",
        done="Nothing was generated, because the answer would not follow it.",
        remedy="Correct the grammar.",
    )
