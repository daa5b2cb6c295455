"""Session: schedule → run → postprocess, for a batch of sequences that share one model."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from engine.errors import EngineError
from engine.memory.prefix_cache import PrefixCache
from engine.messages import ErrorInfo, Event, FinishReason, GenerationFinished, PrefillProgress, TokenEvent
from engine.runtime.executor import Chunk, Interrupted, Logits, StepRunner
from engine.scheduler import Scheduler
from engine.sequence import Sequence


class Session:
    """Runs the sequences that were added until each has finished; tells what happens through `emit`."""

    def __init__(
        self,
        executor: StepRunner,
        cache: PrefixCache,
        context_length: int,
        is_stop: Callable[[int], bool],
        emit: Callable[[Event], None],
    ) -> None:
        self.executor = executor
        self._cache = cache
        self._context_length = context_length
        self._is_stop = is_stop
        self._emit = emit
        self._scheduler = Scheduler(cache)
        self.is_busy = False  # kept, because it is asked several times between two tokens

    def add(self, sequence: Sequence) -> None:
        self._scheduler.add(sequence)
        self.is_busy = True

    @property
    def sequences(self) -> list[Sequence]:
        return self._scheduler.sequences

    def step(self, interrupted: Callable[[], bool] = lambda: False) -> None:
        """One step for every running sequence. May be left early when `interrupted`, and is then simply repeated.

        A step that fails ends the answers that took part in it; what they said stays.
        """
        schedule = self._scheduler.schedule(self.executor.micro_batch)
        for sequence, shortage in schedule.starved:
            self.finish(sequence, FinishReason.ERROR, ErrorInfo.from_exception(shortage))
        if not schedule.work:
            return
        try:
            logits = self.executor.run([chunk for _, chunk in schedule.work], interrupted)
        except Interrupted:
            return
        except Exception as failure:
            error = ErrorInfo.from_exception(failure, "".join(traceback.format_exception(failure)))
            for sequence, _ in schedule.work:
                self.finish(sequence, FinishReason.ERROR, error)
            return
        self._postprocess(schedule.work, logits)

    def finish(self, sequence: Sequence, reason: FinishReason, error: ErrorInfo | None = None) -> None:
        """Ends an answer; what was said stays said, and what was read stays in the cache."""
        self._scheduler.remove(sequence)
        self.is_busy = self._scheduler.is_busy
        rest = sequence.flush_text()
        if rest:
            self._emit(TokenEvent(sequence.request_id, rest, 0))
        self._emit(GenerationFinished(sequence.request_id, reason, sequence.stats(), error))
        self._cache.keep(sequence.state)

    def _postprocess(self, work: list[tuple[Sequence, Chunk]], logits: Logits) -> None:
        row = 0
        for sequence, chunk in work:
            outputs = len(chunk.tokens) - chunk.logits_from
            sequence.state.commit(chunk.tokens)
            if outputs:
                if sequence.first_token is None:
                    self._cache.remember(sequence.state)
                self._accept(sequence, logits, row)
            else:
                self._emit(PrefillProgress(sequence.request_id, sequence.state.length, sequence.prompt_tokens))
            row += outputs

    def _accept(self, sequence: Sequence, logits: Logits, row: int) -> None:
        """Chooses the next token and sends its text; ends the answer where it has to end."""
        try:
            token = sequence.sample(logits, row)
            sequence.append(token)
            if self._is_stop(token):
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
