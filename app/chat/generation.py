"""One answer while it is being written: what has arrived, and how fast. Free of Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from app.chat.token_times import count_times
from app.store.records import Message, Status
from engine.messages import (
    FinishReason,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    ModelInfo,
    PrefillProgress,
    TokenEvent,
)
from engine.text.reasoning import ReasoningSplitter

MEASURABLE = 0.2  # seconds; a speed over less than that is noise

FEWEST_STEPS = 4  # between tokens, for percentiles

_STATUS = {
    FinishReason.STOP: Status.COMPLETE,
    FinishReason.LENGTH: Status.COMPLETE,
    FinishReason.CONTEXT_FULL: Status.COMPLETE,
    FinishReason.ABORTED: Status.STOPPED,
    FinishReason.ERROR: Status.FAILED,
}


@dataclass(slots=True)
class Generation:
    """Ties a request to the message it fills. Speeds count the tokens that really came."""

    request_id: str
    message: Message
    prompt_tokens: int = 0
    prefilled_tokens: int = 0
    tokens: int = 0
    stopping: bool = False
    first_token_at: float | None = None
    last_token_at: float | None = None
    _steps: list[float] = field(default_factory=list)  # seconds between tokens
    _splitter: ReasoningSplitter = field(default_factory=ReasoningSplitter)
    _reasoning_since: float | None = None
    _reasoning_done: bool = False

    @property
    def decode_speed(self) -> float:
        """Tokens per second so far, without the first one."""
        if self.first_token_at is None or self.last_token_at is None or self.tokens < 2:
            return 0.0
        seconds = self.last_token_at - self.first_token_at
        return (self.tokens - 1) / seconds if seconds >= MEASURABLE else 0.0

    def started(self, event: GenerationStarted, model: ModelInfo | None) -> None:
        self.prompt_tokens = event.prompt_tokens
        self.prefilled_tokens = event.reused_tokens
        details = self.message.details
        details.update(prompt_tokens=event.prompt_tokens, reused_tokens=event.reused_tokens)
        if event.trimmed_messages:
            details["trimmed_messages"] = event.trimmed_messages
        if event.warnings:
            details["warnings"] = list(event.warnings)
        if model is not None:
            details.update(
                engine=model.engine, model=model.name, quantization=model.quantization, model_path=model.path
            )

    def prefill(self, event: PrefillProgress) -> None:
        self.prefilled_tokens = event.done_tokens
        self.prompt_tokens = event.total_tokens

    def take(self, arrived: Sequence[tuple[float, TokenEvent]]) -> str:
        """Append the text of events, each with the second at which it left the engine; returns what was appended."""
        for now, event in arrived:
            if event.tokens:
                if self.last_token_at is not None:
                    step = (now - self.last_token_at) / event.tokens
                    self._steps.extend([step] * event.tokens)
                if self.first_token_at is None:
                    self.first_token_at = now
                self.last_token_at = now
                self.tokens += event.tokens
            if not self._reasoning_done:
                self._watch_reasoning(event.text, now)
        text = "".join([event.text for _, event in arrived])
        self.message.content += text
        return text

    def _watch_reasoning(self, text: str, now: float) -> None:
        """How long the model thought before it answered; done as soon as it cannot think any more."""
        self._splitter.push(text)
        if self._splitter.reasoning and self._reasoning_since is None:
            self._reasoning_since = now
        elif self._reasoning_since is not None and not self._splitter.reasoning:
            self._end_reasoning(now)
        self._reasoning_done = self._reasoning_done or self._splitter.is_settled

    def _end_reasoning(self, now: float) -> None:
        if self._reasoning_since is not None and not self._reasoning_done:
            self.message.details["reasoning_seconds"] = now - self._reasoning_since
            self._reasoning_done = True

    def finished(self, event: GenerationFinished, now: float) -> None:
        message = self.message
        self._end_reasoning(now)
        message.status = _STATUS[event.reason]
        message.details["reason"] = event.reason.value
        if event.stats is not None:
            message.details.update(stats_details(event.stats))
        message.details.update(step_details(self._steps))
        if event.error is not None:
            error = asdict(event.error)
            del error["detail"]
            message.details["error"] = error


def step_details(steps: list[float]) -> dict[str, Any]:
    """Median and 99th percentile of the time per output token, and its distribution, where enough were measured."""
    if len(steps) < FEWEST_STEPS:
        return {}
    ordered = sorted(steps)
    last = len(ordered) - 1
    return {
        "tpot_p50": ordered[round(0.5 * last)],
        "tpot_p99": ordered[round(0.99 * last)],
        "tpot_counts": count_times(steps),
    }


def stats_details(stats: GenerationStats) -> dict[str, float]:
    """Measured times as plain values, for the message's row."""
    return {
        "prompt_tokens": stats.prompt_tokens,
        "reused_tokens": stats.reused_tokens,
        "generated_tokens": stats.generated_tokens,
        "ttft": stats.time_to_first_token,
        "prefill_speed": stats.prefill_speed,
        "decode_speed": stats.decode_speed,
        "depth": stats.depth,
    }
