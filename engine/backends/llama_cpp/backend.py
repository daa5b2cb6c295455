"""CompatibilityBackend: a model that llama.cpp runs in a child process, seen as any other Backend.

When the child dies, every open answer ends with BackendCrashedError, and the next request starts a new child
with the same model. Nothing in this process is touched by it.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import replace

from engine import errors
from engine.errors import BackendCrashedError, EngineError, UnsupportedError
from engine.gguf import GGUFFile
from engine.messages import (
    Abort,
    ErrorInfo,
    Event,
    FinishReason,
    Generate,
    GenerationFinished,
    GenerationRequest,
    LoadModel,
    LoadOptions,
    ModelInfo,
    ModelLoaded,
    ModelLoadFailed,
    ModelLoading,
    TimelineTold,
)
from engine.models.quantization import quantization_name
from engine.placement.pins import Pin

from .process import ChildProcess

_WAIT_SECONDS = 0.02  # how long a step waits for the child before commands are looked at again
_HEARTBEAT_SECONDS = 0.1  # the same while it loads

Emit = Callable[[Event], None]
Progress = Callable[[float, str], None]


class CompatibilityBackend:
    """Satisfies `engine.backend.Backend`; made by `load`."""

    held_bytes = 0  # the child's memory is given back with the child, not before

    def __init__(self, child: ChildProcess, info: ModelInfo, load: LoadModel, emit: Emit) -> None:
        self.info = info
        self._child = child
        self._load = load
        self._emit = emit
        self._open: dict[str, None] = {}  # request ids, in order

    @classmethod
    def load(cls, path: str, options: LoadOptions, emit: Emit, progress: Progress) -> CompatibilityBackend:
        """Starts a child and loads `path` in it. Raises what the child reports, BackendCrashedError, or what `progress`
        raises to end the load; it is called several times a second."""
        with GGUFFile.open(path) as gguf:  # refuses what is broken before a process is started for it
            command = LoadModel(str(gguf.path), options)
            file_bytes, quantization = gguf.file_bytes, quantization_name(gguf)
        child, info = _start(command, progress)
        info = replace(info, path=path, file_bytes=file_bytes, quantization=quantization)
        return cls(child, info, command, emit)

    @property
    def is_busy(self) -> bool:
        return bool(self._open)

    @property
    def process_id(self) -> int:
        return self._child.id

    def generate(self, request: GenerationRequest, arrived: float) -> None:
        """Begins an answer, in a new child where the old one has died. `arrived` is measured by the child."""
        if not self._child.is_alive:
            self._child.end()
            self._child, _ = _start(self._load, lambda _fraction, _stage: None)
        self._open[request.request_id] = None
        self._child.send(Generate(request))

    def abort(self, request_id: str) -> None:
        """The child ends the answer within one step; its GenerationFinished then comes as any other event."""
        self._child.send(Abort(request_id))

    def set_budget(self, gpu_bytes: int) -> None:
        raise UnsupportedError(
            "The compatibility engine cannot move a model between devices while it runs.",
            done="Nothing was changed.",
            remedy="Load the model again with another budget.",
        )

    def set_pins(self, pins: frozenset[Pin]) -> None:
        """Nothing can be moved."""

    def set_ram_budget(self, ram_bytes: int | None) -> None:
        raise UnsupportedError(
            "The compatibility engine cannot be held to a RAM budget.",
            done="Nothing was changed.",
            remedy="Choose a shorter context, or a smaller model.",
        )

    def ram(self) -> None:
        """llama.cpp does not tell."""

    def residency(self) -> None:
        """llama.cpp does not tell."""

    def timeline(self) -> TimelineTold:
        """llama.cpp does not tell."""
        return TimelineTold()

    def step(self, interrupted: Callable[[], bool]) -> None:
        """Passes on what the child has said; waits a little where it has not said anything."""
        try:
            event = self._child.events.get(timeout=_WAIT_SECONDS)
            while True:
                self._handle(event)
                if interrupted():
                    return
                event = self._child.events.get_nowait()
        except queue.Empty:
            return

    def close(self) -> None:
        self._child.end()
        for request_id in self._open:
            self._emit(GenerationFinished(request_id, FinishReason.ABORTED, None))
        self._open.clear()

    def _handle(self, event: Event | None) -> None:
        if event is None:
            self._crashed()
            return
        if isinstance(event, GenerationFinished):
            self._open.pop(event.request_id, None)
        self._emit(event)

    def _crashed(self) -> None:
        failure = _crash_error("while it answered", self._child)
        error = ErrorInfo.from_exception(failure, self._child.output())
        open_requests, self._open = self._open, {}
        for request_id in open_requests:
            self._emit(GenerationFinished(request_id, FinishReason.ERROR, None, error))


def _start(command: LoadModel, progress: Progress) -> tuple[ChildProcess, ModelInfo]:
    child, told = ChildProcess(), (0.0, "Starting the compatibility engine")
    try:
        child.send(command)
        while True:
            try:
                event = child.events.get(timeout=_HEARTBEAT_SECONDS)
            except queue.Empty:
                progress(*told)
                continue
            match event:
                case ModelLoading(_, fraction, stage):
                    told = fraction, stage
                    progress(*told)
                case ModelLoaded(info):
                    return child, info
                case ModelLoadFailed(_, error):
                    raise _as_exception(error)
                case None:
                    raise _crash_error("while it loaded the model", child)
    except BaseException:
        child.end()
        raise


def _crash_error(when: str, child: ChildProcess) -> BackendCrashedError:
    return BackendCrashedError(
        f"The compatibility engine stopped {when} ({child.ending()}).",
        done="Everything else goes on, and what was written so far is kept.",
        remedy="Ask again to start it anew. If it stops again, choose another file of this model.",
    )


def _as_exception(info: ErrorInfo) -> EngineError:
    kind = getattr(errors, info.kind, EngineError)
    if kind in (errors.ContextOverflowError, errors.TurnTooLongError) or not issubclass(kind, EngineError):
        kind = EngineError
    error: EngineError = kind(info.cause, done=info.done, remedy=info.remedy)
    return error
