"""Engine: one thread that owns every engine object. Commands come in, a step loop runs, events go out."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from engine.backend import Backend
from engine.errors import EngineError
from engine.loading import load_backend
from engine.messages import (
    Abort,
    AskResidency,
    AskTimeline,
    CancelLoad,
    Command,
    EngineStopped,
    ErrorInfo,
    Event,
    FinishReason,
    Generate,
    GenerationFinished,
    GenerationRequest,
    LoadModel,
    ModelLoadCancelled,
    ModelLoaded,
    ModelLoadFailed,
    ModelLoading,
    ModelUnloaded,
    PlacementRolledBack,
    RamBudgetTold,
    ResidencyTold,
    SetBudget,
    SetPins,
    SetRamBudget,
    Shutdown,
    TimelineTold,
    UnloadModel,
)
from engine.placement.pins import Pin
from engine.telemetry.residency import ResidencySnapshot
from engine.text.template_renderer import shared_renderer


@dataclass(frozen=True, slots=True)
class _Arrived:
    command: Command
    time: float


class _LoadCancelledError(Exception):
    """Nobody wants the model that is being loaded any more."""


class Engine:
    """`on_event` is called on the engine thread and must return at once. `send` may be called from any thread."""

    def __init__(self, on_event: Callable[[Event], None]) -> None:
        self._emit = on_event
        self._inbox: queue.SimpleQueue[_Arrived] = queue.SimpleQueue()
        self._commands: deque[_Arrived] = deque()  # taken from the inbox, not yet carried out
        self._backend: Backend | None = None
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send(self, command: Command) -> None:
        self._inbox.put(_Arrived(command, time.perf_counter()))

    def close(self, timeout: float | None = 10.0) -> None:
        """Stops the thread after its present step; events end with EngineStopped."""
        self.send(Shutdown())
        if self._thread.is_alive():
            self._thread.join(timeout)

    # --- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        error: ErrorInfo | None = None
        try:
            shared_renderer().start()  # by the time that a chat needs its template, the process is up
            while not self._is_stopping:
                self._take_commands(wait=not self._is_busy)
                while self._commands and not self._is_stopping:
                    self._carry_out(self._commands.popleft())
                if self._backend is not None and self._is_busy:
                    self._backend.step(self._is_interrupted)
        except Exception as failure:
            error = _describe(failure)
        try:
            self._unload()
        except Exception as failure:
            error = error or _describe(failure)
        self._emit(EngineStopped(error))

    @property
    def _is_busy(self) -> bool:
        return self._backend is not None and self._backend.is_busy

    def _take_commands(self, *, wait: bool) -> None:
        if wait and not self._commands:
            self._commands.append(self._inbox.get())
        while not self._inbox.empty():  # only this thread takes from it
            self._commands.append(self._inbox.get())

    def _is_interrupted(self) -> bool:
        """Asked by a long step between its parts: whether a command came that should not wait for its end."""
        self._take_commands(wait=False)
        return any(not isinstance(arrived.command, Generate | AskResidency | AskTimeline) for arrived in self._commands)

    def _carry_out(self, arrived: _Arrived) -> None:
        match arrived.command:
            case LoadModel() as command:
                self._load(command)
            case CancelLoad():
                pass  # it has done its work while the model was being loaded, or came too late
            case UnloadModel():
                self._unload()
            case Generate(request):
                self._generate(request, arrived.time)
            case Abort(request_id):
                if self._backend is not None:
                    self._backend.abort(request_id)
            case SetBudget(gpu_bytes):
                self._set_budget(gpu_bytes)
            case SetRamBudget(ram_bytes):
                self._set_ram_budget(ram_bytes)
            case SetPins(pins):
                self._set_pins(pins)
            case AskResidency():
                self._emit(ResidencyTold(self._residency(), self._backend.ram() if self._backend is not None else None))
            case AskTimeline():
                self._emit(self._backend.timeline() if self._backend is not None else TimelineTold())
            case Shutdown():
                self._is_stopping = True

    def _load(self, command: LoadModel) -> None:
        """The new model is complete before the old one is let go; a failure leaves the old one running.

        CancelLoad, and every order that makes this load pointless, ends it at its next sign of progress.
        """
        began = time.perf_counter()
        still = self._backend.info.path if self._backend is not None else None

        def progress(fraction: float, stage: str) -> None:
            if self._is_load_unwanted():
                raise _LoadCancelledError
            self._emit(ModelLoading(command.path, fraction, stage))

        try:
            backend = load_backend(command.path, command.options, self._emit, progress, replaced=self._backend)
        except _LoadCancelledError:
            self._emit(ModelLoadCancelled(command.path, still))
            return
        except Exception as failure:
            self._emit(ModelLoadFailed(command.path, _describe(failure), still))
            return
        self._unload()
        self._backend = backend
        self._emit(ModelLoaded(backend.info, time.perf_counter() - began))

    def _is_load_unwanted(self) -> bool:
        self._take_commands(wait=False)
        ending = CancelLoad | LoadModel | UnloadModel | Shutdown
        return any(isinstance(arrived.command, ending) for arrived in self._commands)

    def _unload(self) -> None:
        """Memory is free again by the time that the event tells of it."""
        if self._backend is not None:
            path = self._backend.info.path
            self._backend.close()
            self._backend = None
            self._emit(ModelUnloaded(path))

    def _set_budget(self, gpu_bytes: int) -> None:
        try:
            if self._backend is None:
                raise EngineError("No model is loaded.", done="Nothing was changed.", remedy="Choose a model first.")
            self._backend.set_budget(gpu_bytes)
        except Exception as failure:
            residency = self._residency() or ResidencySnapshot("", 0, 0)
            self._emit(PlacementRolledBack(gpu_bytes, _describe(failure), residency))

    def _set_ram_budget(self, ram_bytes: int | None) -> None:
        error = None
        try:
            if self._backend is None:
                raise EngineError("No model is loaded.", done="Nothing was changed.", remedy="Choose a model first.")
            self._backend.set_ram_budget(ram_bytes)
        except Exception as failure:
            error = _describe(failure)
        self._emit(RamBudgetTold(ram_bytes, self._backend.ram() if self._backend is not None else None, error))

    def _set_pins(self, pins: frozenset[Pin]) -> None:
        if self._backend is not None:
            self._backend.set_pins(pins)

    def _residency(self) -> ResidencySnapshot | None:
        return self._backend.residency() if self._backend is not None else None

    def _generate(self, request: GenerationRequest, arrived: float) -> None:
        try:
            if self._backend is None:
                raise EngineError("No model is loaded.", done="Nothing was generated.", remedy="Choose a model first.")
            if request.max_tokens is not None and request.max_tokens < 1:
                raise EngineError("An answer has at least one token.", done="Nothing was generated.")
            self._backend.generate(request, arrived)
        except Exception as failure:
            self._emit(GenerationFinished(request.request_id, FinishReason.ERROR, None, _describe(failure)))


def _describe(failure: Exception) -> ErrorInfo:
    return ErrorInfo.from_exception(failure, "".join(traceback.format_exception(failure)))
