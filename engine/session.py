"""Session: schedule → run → postprocess, for a batch of sequences that share one model."""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable

from engine.errors import EngineError, OutOfMemoryError
from engine.memory.prefix_cache import PrefixCache
from engine.messages import (
    ErrorInfo,
    Event,
    FinishReason,
    GenerationFinished,
    PrefillProgress,
    TokenEvent,
)
from engine.runtime.executor import Chunk, Executor, Interrupted, Logits
from engine.sequence import Sequence

_PREFILL_BESIDE_DECODE = 128  # tokens per step that a new prompt may take while other answers go on


class Session:
    """Runs the sequences that were added until each has finished; tells what happens through `emit`."""

    def __init__(
        self,
        executor: Executor,
        cache: PrefixCache,
        context_length: int,
        stop_ids: frozenset[int],
        emit: Callable[[Event], None],
    ) -> None:
        self._executor = executor
        self._cache = cache
        self._context_length = context_length
        self._stop_ids = stop_ids
        self._emit = emit
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []

    @property
    def is_busy(self) -> bool:
        return bool(self._running or self._waiting)

    @property
    def sequences(self) -> list[Sequence]:
        return [*self._running, *self._waiting]

    def add(self, sequence: Sequence) -> None:
        self._waiting.append(sequence)

    def step(self, interrupted: Callable[[], bool] = lambda: False) -> None:
        """One step for every running sequence. May be left early when `interrupted`, and is then simply repeated.

        A step that fails ends the answers that took part in it; what they said stays.
        """
        scheduled = self._schedule()
        if not scheduled:
            return
        try:
            logits = self._executor.run([chunk for _, chunk in scheduled], interrupted)
        except Interrupted:
            return
        except Exception as failure:
            error = ErrorInfo.from_exception(failure, "".join(traceback.format_exception(failure)))
            for sequence, _ in scheduled:
                self.finish(sequence, FinishReason.ERROR, error)
            return
        self._postprocess(scheduled, logits)

    def finish(self, sequence: Sequence, reason: FinishReason, error: ErrorInfo | None = None) -> None:
        """Ends an answer; what was said stays said, and what was read stays in the cache."""
        (self._running if sequence in self._running else self._waiting).remove(sequence)
        rest = "" if reason is FinishReason.ERROR else sequence.flush_text(reason)
        if rest:
            self._emit(TokenEvent(sequence.request_id, rest, 0))
        self._emit(GenerationFinished(sequence.request_id, reason, sequence.stats(), error))
        self._cache.keep(sequence.state)

    # --- schedule ---------------------------------------------------------------------------------------------

    def _schedule(self) -> list[tuple[Sequence, Chunk]]:
        """Answers in progress get their next token each, then prompts share what is left of the micro-batch."""
        while self._waiting and self._make_room(self._waiting[0], 1):
            self._running.append(self._waiting.popleft())
        decoding = [sequence for sequence in self._running if sequence.is_decoding]
        budget = self._executor.micro_batch
        if decoding:
            budget = len(decoding) + min(budget, _PREFILL_BESIDE_DECODE)
        scheduled: list[tuple[Sequence, Chunk]] = []
        for sequence in [*decoding, *(s for s in self._running if not s.is_decoding)]:
            count = min(sequence.pending, budget)
            if count and sequence in self._running and self._make_room(sequence, count):
                sequence.prefill_began = sequence.prefill_began or time.perf_counter()
                scheduled.append((sequence, _next_chunk(sequence, count)))
                budget -= count
        return [(sequence, chunk) for sequence, chunk in scheduled if sequence in self._running]

    def _make_room(self, sequence: Sequence, tokens: int) -> bool:
        """Reserves cells, if need be at the cost of kept states, of answers that wait, and of the youngest one."""
        while True:
            try:
                sequence.state.reserve(tokens)
                return True
            except OutOfMemoryError as shortage:
                if self._cache.evict() or self._take_from_waiting(sequence):
                    continue
                if sequence not in self._running:
                    return False  # it waits for the others
                youngest = self._running[-1]
                if youngest is sequence and len(self._running) == 1:
                    self.finish(sequence, FinishReason.ERROR, ErrorInfo.from_exception(shortage))
                    return False
                self._preempt(youngest)
                if youngest is sequence:
                    return False

    def _take_from_waiting(self, needy: Sequence) -> bool:
        """Frees what an answer in line has ready; it is read again when its turn comes."""
        for waiting in self._waiting:
            if waiting is not needy and waiting.state.length:
                waiting.state.release()
                return True
        return False

    def _preempt(self, sequence: Sequence) -> None:
        """Puts an answer back in line; its tokens are read again when there is room."""
        self._running.remove(sequence)
        sequence.state.release()
        self._waiting.appendleft(sequence)

    # --- postprocess ------------------------------------------------------------------------------------------

    def _postprocess(self, scheduled: list[tuple[Sequence, Chunk]], logits: Logits) -> None:
        row = 0
        for sequence, chunk in scheduled:
            sequence.state.commit(chunk.tokens)
            if chunk.outputs:
                self._accept(sequence, logits[row])
            else:
                self._emit(PrefillProgress(sequence.request_id, sequence.state.length, sequence.prompt_tokens))
            row += chunk.outputs

    def _accept(self, sequence: Sequence, logits: Logits) -> None:
        """Chooses the next token and sends its text; ends the answer where it has to end."""
        try:
            token = sequence.sample(logits)
            sequence.append(token)
            if token in self._stop_ids:
                self.finish(sequence, FinishReason.STOP)
                return
            text, stopped = sequence.push_text(token)
            self._emit(TokenEvent(sequence.request_id, text))
        except EngineError as error:
            self.finish(sequence, FinishReason.ERROR, ErrorInfo.from_exception(error))
            return
        if stopped:
            self.finish(sequence, FinishReason.STOP)
        elif sequence.generated == sequence.max_tokens:
            self.finish(sequence, FinishReason.LENGTH)
        elif len(sequence.tokens) >= self._context_length:
            self.finish(sequence, FinishReason.CONTEXT_FULL)


def _next_chunk(sequence: Sequence, count: int) -> Chunk:
    begin = sequence.state.length
    is_last = begin + count == len(sequence.tokens)
    return Chunk(sequence.state, sequence.tokens[begin : begin + count], count - 1 if is_last else count)
