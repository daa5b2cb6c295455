"""The text of one answer as its tokens arrive: whole characters, stop strings, end-of-turn tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from engine.text.detokenizer import Detokenizer
from engine.text.stopping import StopMatcher
from engine.text.tokenizer import Tokenizer


class AnswerStep(NamedTuple):
    text: str  # to show now; empty while a character or a possible stop string is incomplete
    stopped: bool  # by an end-of-turn token or a stop string: the answer is complete


class AnswerText:
    """`push` every sampled token; call `finish` once when the answer ends for another reason than `stopped`."""

    def __init__(self, tokenizer: Tokenizer, stop_strings: Iterable[str] = ()) -> None:
        self._is_stop = tokenizer.is_stop
        self._detokenizer = Detokenizer(tokenizer)
        self._matcher = StopMatcher(stop_strings)

    def push(self, token: int) -> AnswerStep:
        if self._is_stop(token):
            return AnswerStep(self.finish(), True)
        emit, hit = self._matcher.push(self._detokenizer.push(token))
        return AnswerStep(emit, hit is not None)

    def finish(self) -> str:
        """What was held back, unless it completes a stop string after all."""
        emit, hit = self._matcher.push(self._detokenizer.flush())
        return emit if hit else emit + self._matcher.flush()
