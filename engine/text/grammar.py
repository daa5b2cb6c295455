"""GBNF grammars through llama.cpp. An invalid grammar is an error, never an unconstrained answer.

They are followed by a process of their own (`grammar_worker`), because a grammar may need any amount of time. One that
needs too much ends the answer, and nothing else. An idle process is kept for the next answer of the same model.
"""

from __future__ import annotations

import atexit
import weakref
from typing import TYPE_CHECKING

import numpy as np

from engine.errors import EngineError
from engine.text.candidates import Logits
from engine.text.framed_child import FramedChild

if TYPE_CHECKING:
    from engine.text.tokenizer import Tokenizer

# llama.cpp's grammar parser recurses per nesting level and per rule; these bounds keep its stack far from full.
_MAX_CHARACTERS = 1 << 17
_MAX_NESTING = 200
_MAX_RULES = 10_000

MAX_START_SECONDS = 60.0  # the process and its vocabulary; some 0.5 s on an idle machine
MAX_STEP_SECONDS = 5.0  # one token; 0.4 s is the most that was seen of a grammar with 1,000 optional parts


class GrammarError(EngineError):
    """A grammar cannot be parsed or followed, or admits no token of the vocabulary at this point."""


class Grammar:
    """The state of one grammar along one answer. The start rule is `root`. Raises GrammarError."""

    def __init__(self, text: str, tokenizer: Tokenizer) -> None:
        _expect_sane(text)
        self._n_vocab = tokenizer.n_vocab
        path = str(tokenizer.path)
        self._worker = _idle.pop(path) if path in _idle else FramedChild("engine.text.grammar_worker", path)
        weakref.finalize(self, _give_back, path, self._worker).atexit = False  # without a parent it ends by itself
        limit = MAX_STEP_SECONDS if self._worker.is_running else MAX_START_SECONDS
        problem = self._worker.exchange(b"G" + text.encode(), limit)
        if problem is None:
            if self._worker.took_too_long:
                raise _refused("it takes too long to read")
            raise _ended("Nothing was generated.")
        if problem:
            raise _refused(problem.decode())

    def allows(self, token: int) -> bool:
        return self._ask(b"A" + token.to_bytes(4, "little")) == b"\1"

    def take(self, token: int) -> bool:
        """Whether `token` is allowed; if it is, the answer goes on with it."""
        return self._ask(b"T" + token.to_bytes(4, "little")) == b"\1"

    def masked(self, logits: Logits) -> Logits:
        """`logits` [n_vocab] with -inf for every token that the grammar forbids now."""
        bits = np.frombuffer(self._ask(b"M"), np.uint8)
        allowed = np.unpackbits(bits, count=self._n_vocab).view(bool)
        if not allowed.any():
            raise GrammarError(
                "The grammar allows no further token, and this vocabulary cannot end the answer here.",
                done="The answer was ended.",
                remedy="Change the grammar.",
            )
        masked: Logits = np.where(allowed, logits, np.float32(-np.inf))
        return masked

    def _ask(self, request: bytes) -> bytes:
        if not self._worker.is_running:  # a new one would know nothing of this grammar
            raise _ended("The answer was ended.")
        reply = self._worker.exchange(request, MAX_STEP_SECONDS)
        if reply is None:
            if not self._worker.took_too_long:
                raise _ended("The answer was ended.")
            raise GrammarError(
                "The grammar takes too long to follow from here.",
                done="The answer was ended, and what it needed was stopped.",
                remedy="Write it with fewer optional or repeated parts that begin alike.",
            )
        return reply


_idle: dict[str, FramedChild] = {}  # by the model's path; one at most, of the model that was used last


def _give_back(path: str, worker: FramedChild) -> None:
    if not worker.is_running or path in _idle:
        worker.end()
        return
    end_idle()
    _idle[path] = worker


@atexit.register
def end_idle() -> None:
    """End the process that waits for the next answer."""
    while _idle:
        _idle.popitem()[1].end()


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


def _ended(done: str) -> GrammarError:
    """Killed by somebody else, out of memory, or without the model's file, which it reads for itself."""
    return GrammarError(
        "The process that follows the grammar has ended.",
        done=done,
        remedy="Ask again. If it happens again, see whether the model's file is still there, or simplify the grammar.",
    )


def _refused(reason: str) -> GrammarError:
    return GrammarError(
        f"The grammar cannot be used: {reason}.",
        done="Nothing was generated, because the answer would not follow it.",
        remedy="Correct the grammar.",
    )
