"""An engine for GUI tests that must steer every event: it plays scripts instead of running a model."""

from __future__ import annotations

import threading
from collections.abc import Callable

from engine.messages import (
    Abort,
    CancelLoad,
    Command,
    EngineStopped,
    ErrorInfo,
    Event,
    FinishReason,
    Generate,
    GenerationFinished,
    GenerationRequest,
    GenerationStarted,
    GenerationStats,
    LoadModel,
    ModelInfo,
    ModelLoadCancelled,
    ModelLoaded,
    ModelLoadFailed,
    ModelLoading,
    ModelUnloaded,
    PrefillProgress,
    TokenEvent,
    UnloadModel,
)


def model_info(path: str = "/models/scripted.gguf", name: str = "Scripted 1B", engine: str = "native") -> ModelInfo:
    return ModelInfo(path, name, "llama", engine, "Q4_K_M", 1_000_000_000, 700_000_000, 4096, 8192, "avx2", 4)  # type: ignore[arg-type]


class ScriptedEngine:
    """Commands are recorded. What is answered is told by `script`, or by the test through `emit`."""

    def __init__(self, on_event: Callable[[Event], None]) -> None:
        self.emit = on_event
        self.commands: list[Command] = []
        self.answer: str | None = "Hello **there**."
        self.load_error: ErrorInfo | None = None
        self.loading: str | None = None  # set to "": the next load goes on until it is cancelled
        self.running: str | None = None
        self.info: ModelInfo | None = None
        self.arrived = threading.Condition()

    def start(self) -> None:
        pass

    def send(self, command: Command) -> None:
        with self.arrived:
            self.commands.append(command)
            self.arrived.notify_all()
        match command:
            case LoadModel(path=path):
                self.emit(ModelLoading(path, 0.5, "weights"))
                if self.loading is not None:
                    self.loading = path
                elif self.load_error is not None:
                    self.emit(ModelLoadFailed(path, self.load_error))
                else:
                    self.info = self.info or model_info(path)
                    self.running = self.info.path
                    self.emit(ModelLoaded(self.info, 0.1))
            case CancelLoad():
                path, self.loading = self.loading or "", None
                self.emit(ModelLoadCancelled(path, self.running))
            case UnloadModel():
                self.running = None
                self.emit(ModelUnloaded(self.info.path if self.info else ""))
            case Generate(request=request) if self.answer is not None:
                self.play(request, self.answer)
            case Abort(request_id=request_id):
                self.emit(GenerationFinished(request_id, FinishReason.ABORTED, stats(3)))

    def close(self) -> None:
        self.emit(EngineStopped())

    def requests(self) -> list[GenerationRequest]:
        return [command.request for command in self.commands if isinstance(command, Generate)]

    def play(self, request: GenerationRequest, answer: str) -> None:
        words = answer.split(" ")
        self.begin(request)
        for number, word in enumerate(words):
            self.emit(TokenEvent(request.request_id, word if number == 0 else " " + word))
        self.emit(GenerationFinished(request.request_id, FinishReason.STOP, stats(len(words))))

    def begin(self, request: GenerationRequest) -> None:
        self.emit(GenerationStarted(request.request_id, 20, 5))
        self.emit(PrefillProgress(request.request_id, 20, 20))


def stats(tokens: int) -> GenerationStats:
    return GenerationStats(20, 5, tokens, 0.25, 0.2, 0.1 * max(1, tokens - 1), 20 + tokens)
