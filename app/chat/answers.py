"""The answers that are being written, in any conversation: the engine's events become their text and figures."""

from __future__ import annotations

import time

from PySide6.QtCore import QObject, Signal

from app.chat.generation import Generation
from app.engine_client import Arrival, EngineClient
from app.model_controller import ModelController
from app.store.records import Message
from engine.messages import (
    Abort,
    EngineStopped,
    ErrorInfo,
    Event,
    FinishReason,
    Generate,
    GenerationFinished,
    GenerationRequest,
    GenerationStarted,
    PrefillProgress,
    TokenEvent,
)


class Answers(QObject):
    grew = Signal(object, str)  # Generation, appended text
    progressed = Signal(object)  # Generation
    ended = Signal(object)  # Generation; its message has its final status

    def __init__(self, client: EngineClient, models: ModelController, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._models = models
        self._running: dict[str, Generation] = {}

    @property
    def is_any_running(self) -> bool:
        return bool(self._running)

    def in_conversation(self, conversation_id: str | None) -> Generation | None:
        for generation in self._running.values():
            if generation.message.conversation_id == conversation_id:
                return generation
        return None

    def begin(self, request: GenerationRequest, message: Message) -> None:
        """Have `message` filled by what the engine answers to `request`."""
        self._running[request.request_id] = Generation(request.request_id, message)
        self._client.send(Generate(request))

    def stop(self, generation: Generation) -> None:
        """The text so far is kept; the end is told when the engine has stopped."""
        if not generation.stopping:
            generation.stopping = True
            self._client.send(Abort(generation.request_id))
            self.progressed.emit(generation)

    def handle_all(self, arrivals: list[Arrival]) -> None:
        """One drained batch: the text of each answer is put together before the screen hears of it."""
        grown: dict[str, list[tuple[float, TokenEvent]]] = {}
        for moment, event in arrivals:
            if isinstance(event, TokenEvent):
                if event.request_id in self._running:
                    grown.setdefault(event.request_id, []).append((moment, event))
                continue
            self._tell_grown(grown)
            self._handle(event, moment)
        self._tell_grown(grown)

    def _tell_grown(self, grown: dict[str, list[tuple[float, TokenEvent]]]) -> None:
        for request_id, arrived in grown.items():
            generation = self._running[request_id]
            if text := generation.take(arrived):
                self.grew.emit(generation, text)
            self.progressed.emit(generation)
        grown.clear()

    def _handle(self, event: Event, moment: float) -> None:
        match event:
            case GenerationStarted(request_id=request_id):
                if (generation := self._running.get(request_id)) is not None:
                    generation.started(event, self._models.info)
                    self.progressed.emit(generation)
            case PrefillProgress(request_id=request_id):
                if (generation := self._running.get(request_id)) is not None:
                    generation.prefill(event)
                    self.progressed.emit(generation)
            case GenerationFinished():
                self._finish(event, moment)
            case EngineStopped(error=error):
                self._fail_all(error)

    def _finish(self, event: GenerationFinished, moment: float) -> None:
        generation = self._running.pop(event.request_id, None)
        if generation is not None:
            generation.finished(event, moment)
            self.ended.emit(generation)

    def _fail_all(self, error: ErrorInfo | None) -> None:
        """The engine is gone: every answer keeps its text and says why it ends."""
        reason = error or ErrorInfo("EngineStopped", "The engine has stopped.")
        for request_id in list(self._running):
            self._finish(GenerationFinished(request_id, FinishReason.ERROR, None, reason), time.monotonic())
