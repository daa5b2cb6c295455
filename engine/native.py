"""NativeBackend: a model in our own engine, and the session that answers from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.budget_control import BudgetControl
from engine.errors import EngineError, UnsupportedError
from engine.heat_recorder import HeatRecorder
from engine.memory.prefix_cache import PrefixCache
from engine.messages import (
    Event,
    FinishReason,
    GenerationRequest,
    GenerationStarted,
    ModelInfo,
    Notice,
    StepSpan,
    TimelineTold,
    TokenEvent,
)
from engine.placement.pins import Pin
from engine.ram_control import RamControl
from engine.runtime.devices.streams import Span
from engine.runtime.loaded import LoadedModel
from engine.sequence import Sequence
from engine.session import Session
from engine.telemetry.residency import RamUse, ResidencySnapshot
from engine.text.detokenizer import Detokenizer
from engine.text.grammar import end_idle
from engine.text.prompt import build_prompt
from engine.text.sampler import Sampler
from engine.text.stopping import StopMatcher
from engine.text.template import ChatTemplate
from engine.text.tokenizer import Tokenizer

Emit = Callable[[Event], None]


@dataclass(slots=True)
class NativeBackend:
    """Answers requests with a loaded model; made by `native_loading`."""

    info: ModelInfo
    tokenizer: Tokenizer
    template: ChatTemplate
    cache: PrefixCache
    session: Session
    model: LoadedModel
    emit: Emit
    memory: RamControl
    control: BudgetControl | None = None  # where there is a device beside the CPU
    recorder: HeatRecorder | None = None

    @property
    def held_bytes(self) -> int:
        return self.model.pool.held_bytes

    @property
    def is_busy(self) -> bool:
        return self.session.is_busy or (self.control is not None and self.control.is_busy)

    def generate(self, request: GenerationRequest, arrived: float) -> None:
        prompt = build_prompt(request, self.template, self.tokenizer, self.info.context_length)
        if not prompt.tokens:
            raise EngineError("The prompt is empty.", done="Nothing was generated.", remedy="Type something first.")
        sampler = Sampler(request.sampling, self.tokenizer, history=prompt.tokens)
        sequence = Sequence(
            request_id=request.request_id,
            tokens=prompt.tokens,
            max_tokens=request.max_tokens,
            state=self.cache.take(prompt.tokens),
            sample=sampler.sample,
            detokenizer=Detokenizer(self.tokenizer),
            matcher=StopMatcher(prompt.stop),
            arrived=arrived,
        )
        self.emit(
            GenerationStarted(
                request.request_id,
                prompt_tokens=sequence.prompt_tokens,
                reused_tokens=sequence.reused_tokens,
                trimmed_messages=prompt.trimmed_messages,
                warnings=prompt.warnings,
            )
        )
        if prompt.answer_start:
            self.emit(TokenEvent(request.request_id, prompt.answer_start, tokens=0))
        self.session.add(sequence)

    def abort(self, request_id: str) -> None:
        for sequence in self.session.sequences:
            if sequence.request_id == request_id:
                self.session.finish(sequence, FinishReason.ABORTED)

    def step(self, interrupted: Callable[[], bool]) -> None:
        if self.control is not None:
            self.control.advance()
        self.session.step(interrupted)
        if self.memory.limit is not None:
            self.memory.keep_within()
        if self.recorder is not None and not self.session.sequences:
            self.recorder.save()

    def set_budget(self, gpu_bytes: int) -> None:
        if self.control is None:
            raise UnsupportedError(
                "The model was loaded for the processor alone.",
                done="Nothing was changed.",
                remedy="Load it again with a device.",
            )
        self.control.set_budget(gpu_bytes)

    def set_ram_budget(self, ram_bytes: int | None) -> None:
        self.memory.set_limit(ram_bytes)
        if self.control is not None:
            self.control.ram_bytes = ram_bytes

    def ram(self) -> RamUse:
        return self.memory.look()

    def set_pins(self, pins: frozenset[Pin]) -> None:
        if self.control is not None:
            self.control.set_pins(pins)

    def residency(self) -> ResidencySnapshot | None:
        return self.control.snapshot() if self.control is not None else None

    def timeline(self) -> TimelineTold:
        if self.model.hybrid is None:
            return TimelineTold()
        decode, prefill = self.model.hybrid.watch.ask()
        return TimelineTold(_step_spans(decode), _step_spans(prefill))

    def close(self) -> None:
        for sequence in self.session.sequences:
            self.session.finish(sequence, FinishReason.ABORTED)
        end_idle()
        self.cache.clear()
        try:
            self.model.close()
        except EngineError as error:  # of a trace alone: everything else was given back
            self.emit(Notice(error.cause, error.remedy))
        if self.recorder is not None:
            self.recorder.save(at_once=True)


def _step_spans(spans: Iterable[Span]) -> tuple[StepSpan, ...]:
    return tuple(StepSpan(span.lane, span.name, span.begin, span.end) for span in spans)
