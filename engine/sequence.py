"""Sequence: one answer in the making, from its prompt's tokens to its last character."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.memory.sequence_state import SequenceState
from engine.messages import GenerationStats
from engine.runtime.executor import Logits
from engine.text.detokenizer import Detokenizer
from engine.text.stopping import StopMatcher


@dataclass(slots=True, eq=False)
class Sequence:
    """`tokens` is prompt and answer; `state` holds a beginning of it, and the rest is `pending`."""

    request_id: str
    tokens: list[int]
    max_tokens: int | None
    state: SequenceState
    sample: Callable[[Logits, int], int]  # from a row of logits
    detokenizer: Detokenizer
    matcher: StopMatcher
    arrived: float  # perf_counter when the request came in
    prompt_tokens: int = field(init=False)
    reused_tokens: int = field(init=False)
    prefill_began: float | None = None
    first_token: float | None = None
    last_token: float = 0.0

    def __post_init__(self) -> None:
        self.prompt_tokens = len(self.tokens)
        self.reused_tokens = self.state.length

    @property
    def generated(self) -> int:
        return len(self.tokens) - self.prompt_tokens

    @property
    def pending(self) -> int:
        return len(self.tokens) - self.state.length

    @property
    def is_decoding(self) -> bool:
        # Asked between any two tokens, so in one piece: pending == 1 and generated > 0.
        count = len(self.tokens)
        return count - self.state.length == 1 and count > self.prompt_tokens

    def append(self, token: int) -> None:
        self.last_token = time.perf_counter()
        if self.first_token is None:
            self.first_token = self.last_token
        self.tokens.append(token)

    def push_text(self, token: int) -> tuple[str, bool]:
        """Text that may be shown now, and whether a stop string ends the answer."""
        text = self.detokenizer.push(token)
        if not self.matcher.is_needed:  # so it is in most answers
            return text, False
        result = self.matcher.push(text)
        return result.emit, result.hit is not None

    def flush_text(self) -> str:
        """What is still held back. After a stop string there is nothing."""
        result = self.matcher.push(self.detokenizer.flush())
        return result.emit if result.hit else result.emit + self.matcher.flush()

    def stats(self) -> GenerationStats:
        now = time.perf_counter()
        first = now if self.first_token is None else self.first_token
        return GenerationStats(
            prompt_tokens=self.prompt_tokens,
            reused_tokens=self.reused_tokens,
            generated_tokens=self.generated,
            time_to_first_token=first - self.arrived,
            prefill_seconds=first - self.prefill_began if self.prefill_began is not None else 0.0,
            decode_seconds=max(0.0, self.last_token - first),
            depth=self.state.length,
        )
