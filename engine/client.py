"""EngineClient: the engine for callers that wait: the terminal, benchmarks and tests."""

from __future__ import annotations

import itertools
import queue
from collections.abc import Callable, Iterator
from types import TracebackType

from engine.engine import Engine
from engine.errors import EngineError
from engine.messages import (
    Abort,
    ChatMessage,
    Command,
    EngineStopped,
    ErrorInfo,
    Event,
    Generate,
    GenerationFinished,
    GenerationRequest,
    LoadModel,
    LoadOptions,
    ModelInfo,
    ModelLoadCancelled,
    ModelLoaded,
    ModelLoadFailed,
    ModelLoading,
    ModelUnloaded,
    SamplingParams,
    TokenEvent,
    UnloadModel,
)

_DEFAULTS = LoadOptions()
_GREEDY = SamplingParams(temperature=0.0)


class EngineClient:
    """Starts an engine and hands its events to whoever waits. A context manager; for one thread at a time."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._engine = Engine(self._events.put)
        self._ids = itertools.count(1)
        self._engine.start()

    def __enter__(self) -> EngineClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._engine.close()

    def send(self, command: Command) -> None:
        self._engine.send(command)

    def next_event(self, timeout: float | None = None) -> Event:
        """The next event; `queue.Empty` after `timeout` seconds without one."""
        return self._events.get(timeout=timeout)

    def load(
        self, path: str, options: LoadOptions = _DEFAULTS, on_progress: Callable[[ModelLoading], None] | None = None
    ) -> ModelInfo:
        """Loads a model and waits for it. ReportedError if it cannot be loaded, EngineError if that was cancelled."""
        self.send(LoadModel(path, options))
        for event in self._until(ModelLoaded, ModelLoadFailed, ModelLoadCancelled):
            if isinstance(event, ModelLoading) and on_progress is not None:
                on_progress(event)
            elif isinstance(event, ModelLoaded):
                return event.info
            elif isinstance(event, ModelLoadFailed):
                raise event.error.to_exception()
        raise EngineError("The load was cancelled.")

    def unload(self) -> None:
        """Unloads the model that `load` loaded, and waits for it."""
        self.send(UnloadModel())
        for _ in self._until(ModelUnloaded):
            pass

    def stream(self, request: GenerationRequest) -> Iterator[Event]:
        """The events of one answer, GenerationFinished last. Leaving early aborts it."""
        self.send(Generate(request))
        finished = False
        try:
            for event in self._until(GenerationFinished):
                finished = isinstance(event, GenerationFinished)
                yield event
        finally:
            if not finished:
                self.send(Abort(request.request_id))

    def answer(self, prompt: str, *, sampling: SamplingParams = _GREEDY, max_tokens: int | None = None) -> str:
        """The answer to one user message, greedy unless said otherwise. ReportedError if there was an error."""
        messages = (ChatMessage("user", prompt),)
        request = GenerationRequest(f"answer-{next(self._ids)}", messages, sampling, max_tokens)
        text = []
        for event in self.stream(request):
            if isinstance(event, TokenEvent):
                text.append(event.text)
            elif isinstance(event, GenerationFinished) and event.error is not None:
                raise event.error.to_exception()
        return "".join(text)

    def _until(self, *last: type[Event]) -> Iterator[Event]:
        while True:
            event = self._events.get()
            yield event
            if isinstance(event, last):
                return
            if isinstance(event, EngineStopped):
                raise (event.error or ErrorInfo("EngineError", "The engine was stopped.")).to_exception()
