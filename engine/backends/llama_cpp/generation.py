"""One answer in the compatibility engine: prompt → prefill in micro-batches → sample until done."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.errors import EngineError
from engine.messages import (
    ErrorInfo,
    Event,
    FinishReason,
    GenerationFinished,
    GenerationRequest,
    GenerationStarted,
    GenerationStats,
    PrefillProgress,
    TokenEvent,
)
from engine.text.answer import AnswerText
from engine.text.prompt import Prompt, build_prompt
from engine.text.sampler import Sampler
from engine.text.template import ChatTemplate

from .model import CompatibilityModel

_FIRST_BATCH = 32
_BATCH_SECONDS = 0.25  # a micro-batch is grown until it takes about this long, so that Stop is quick


class Generation:
    """Runs one request to its end. `aborted` is asked between micro-batches and between tokens."""

    def __init__(
        self,
        request: GenerationRequest,
        model: CompatibilityModel,
        emit: Callable[[Event], None],
        aborted: Callable[[], bool],
    ) -> None:
        self.request = request
        self.model = model
        self._emit = emit
        self._aborted = aborted
        self._started = time.perf_counter()
        self._first_token = self._prefill_end = self._last_token = 0.0
        self._generated = 0
        self._prompt: Prompt | None = None
        self._reused = 0

    def run(self, template: ChatTemplate) -> None:
        """Emits GenerationStarted … GenerationFinished; the latter always, whatever goes wrong."""
        reason, error = FinishReason.ERROR, None
        try:
            reason = self._run(template)
        except EngineError as failure:
            error = ErrorInfo.from_exception(failure)
        self._emit(GenerationFinished(self.request.request_id, reason, self._stats(), error))

    def _run(self, template: ChatTemplate) -> FinishReason:
        request, model = self.request, self.model
        self._prompt = prompt = build_prompt(request, template, model.tokenizer, model.context_length)
        sampler = Sampler(request.sampling, model.tokenizer, history=prompt.tokens)
        self._reused = model.keep_prefix(prompt.tokens)
        self._emit(
            GenerationStarted(
                request.request_id, len(prompt.tokens), self._reused, prompt.trimmed_messages, prompt.warnings
            )
        )
        self._emit_rest(prompt.answer_start)
        if not self._prefill(prompt.tokens):
            return FinishReason.ABORTED
        return self._decode(sampler, AnswerText(model.tokenizer, prompt.stop))

    def _prefill(self, tokens: list[int]) -> bool:
        """False when the request was aborted on the way."""
        done, size = self._reused, _FIRST_BATCH
        while done < len(tokens):
            if self._aborted():
                return False
            batch = tokens[done : done + size]
            begin = time.perf_counter()
            self.model.decode(batch)
            done += len(batch)
            self._emit(PrefillProgress(self.request.request_id, done, len(tokens)))
            if time.perf_counter() - begin < _BATCH_SECONDS / 2:
                size = min(2 * size, self.model.micro_batch)
        self._prefill_end = time.perf_counter()
        return True

    def _decode(self, sampler: Sampler, answer: AnswerText) -> FinishReason:
        reason = None
        while reason is None:
            if self._aborted():
                reason = FinishReason.ABORTED
                break
            token = sampler.sample(self.model.logits())
            self._count()
            text, stopped = answer.push(token)
            self._emit(TokenEvent(self.request.request_id, text))
            if stopped:
                return FinishReason.STOP
            reason = self._limit()
            if reason is None:
                self.model.decode([token])
        self._emit_rest(answer.finish())
        return reason

    def _limit(self) -> FinishReason | None:
        limit = self.request.max_tokens
        if limit is not None and self._generated >= limit:
            return FinishReason.LENGTH
        return FinishReason.CONTEXT_FULL if len(self.model.cached) >= self.model.context_length else None

    def _count(self) -> None:
        self._generated += 1
        self._last_token = time.perf_counter()
        self._first_token = self._first_token or self._last_token

    def _emit_rest(self, text: str) -> None:
        if text:
            self._emit(TokenEvent(self.request.request_id, text, tokens=0))

    def _stats(self) -> GenerationStats | None:
        if self._prompt is None:
            return None
        prefill_end = self._prefill_end or time.perf_counter()
        return GenerationStats(
            prompt_tokens=len(self._prompt.tokens),
            reused_tokens=self._reused,
            generated_tokens=self._generated,
            time_to_first_token=self._first_token - self._started if self._generated else 0.0,
            prefill_seconds=prefill_end - self._started,
            decode_seconds=self._last_token - self._first_token,
            depth=len(self.model.cached),
        )
