"""Tessera from its file to text: the loading, steps and events of the engine thread."""

from __future__ import annotations

import queue
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.benchmark.contestant import PROMPT, Pause, Setup
from engine.errors import EngineError
from engine.loading import load_backend
from engine.messages import Event, GenerationFinished, GenerationRequest, LoadOptions, SamplingParams
from engine.native import NativeBackend
from engine.runtime.executor import Chunk, Logits, StepRunner
from engine.text.llama_library import llama


class NativeAnswerer:
    """`variant` is the ISA tier, as in NativeContestant."""

    def __init__(self, setup: Setup) -> None:
        llama()  # as with the peer, the library is there before the clock runs
        self._setup = setup
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._backend: NativeBackend | None = None

    def first_token(self) -> float:
        setup = self._setup
        options = LoadOptions(setup.context_length, setup.threads, device=setup.device, kv_type=setup.kv_type)
        begin = time.perf_counter()
        backend = load_backend(setup.path, options, self._events.put, lambda fraction, stage: None)
        if not isinstance(backend, NativeBackend):
            raise EngineError("Our own engine does not run this model.", done="It was not measured.")
        self._backend = backend
        self._answer("first", 1)
        return time.perf_counter() - begin

    def pause(self, tokens: int) -> Pause:
        assert self._backend is not None
        session = self._backend.session
        clock = _Clock(session.executor, session.executor.micro_batch)
        session.executor = clock
        for answer in range(tokens):  # random weights may end an answer at any token
            if len(clock.between) >= tokens:
                break
            self._answer(f"pause-{answer}", tokens)
            clock.returned = None
        return Pause(statistics.median(clock.between), statistics.median(clock.steps))

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()

    def _answer(self, name: str, tokens: int) -> None:
        assert self._backend is not None
        request = GenerationRequest(name, (), SamplingParams(seed=1), max_tokens=tokens, raw_prompt=PROMPT.decode())
        self._backend.generate(request, time.perf_counter())
        while self._backend.is_busy:
            self._backend.step(lambda: False)
        while not self._events.empty():
            event = self._events.get()
            if isinstance(event, GenerationFinished) and event.error is not None:
                raise event.error.to_exception()


@dataclass
class _Clock:
    """An executor that notes when it is called and when it returns."""

    executor: StepRunner
    micro_batch: int
    returned: float | None = None
    between: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)

    def run(self, chunks: Sequence[Chunk], interrupted: Callable[[], bool] = lambda: False) -> Logits:
        called, before = time.perf_counter(), self.returned
        logits = self.executor.run(chunks, interrupted)
        self.returned = time.perf_counter()
        if before is not None:
            self.between.append(called - before)
            self.steps.append(self.returned - before)
        return logits
