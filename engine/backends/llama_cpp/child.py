"""The child's command loop: commands in on one thread, the model on the main thread, events out."""

from __future__ import annotations

import os
import queue
import threading
import time
import traceback
from typing import BinaryIO

from engine.errors import EngineError
from engine.messages import (
    Abort,
    Command,
    ErrorInfo,
    FinishReason,
    Generate,
    GenerationFinished,
    LoadModel,
    ModelLoaded,
    ModelLoadFailed,
    ModelLoading,
    Shutdown,
)
from engine.text.template import ChatTemplate

from .framing import MessageWriter, receive
from .generation import Generation
from .model import CompatibilityModel

_PROGRESS_SECONDS = 0.05


class Child:
    """Serves one model for as long as the parent lives."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._writer = MessageWriter(sink)
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._aborted: set[str] = set()
        self._model: CompatibilityModel | None = None
        self._template: ChatTemplate | None = None

    def run(self) -> None:
        threading.Thread(target=self._receive, name="commands", daemon=True).start()
        while True:
            match self._commands.get():
                case LoadModel() as command:
                    self._load(command)
                case Generate() as command:
                    self._generate(command)
                case Shutdown():
                    return

    def _receive(self) -> None:
        while (command := receive(self._source)) is not None:
            if isinstance(command, Abort):
                self._aborted.add(command.request_id)
            else:
                self._commands.put(command)
        os._exit(0)  # the parent is gone; nothing here is worth finishing

    def _load(self, command: LoadModel) -> None:
        begin = last = time.perf_counter()

        def progress(fraction: float) -> None:
            nonlocal last
            if time.perf_counter() - last > _PROGRESS_SECONDS:
                last = time.perf_counter()
                self._writer.send(ModelLoading(command.path, fraction, "Loading weights"))

        self._writer.send(ModelLoading(command.path, 0.0, "Starting the compatibility engine"))
        try:
            self._model = CompatibilityModel(command.path, command.options, progress)
            self._template = ChatTemplate.from_tokenizer(self._model.tokenizer, command.options.template)
        except EngineError as error:
            self._writer.send(ModelLoadFailed(command.path, ErrorInfo.from_exception(error)))
            return
        self._writer.send(ModelLoaded(self._model.info(), time.perf_counter() - begin))

    def _generate(self, command: Generate) -> None:
        request = command.request
        if self._model is None or self._template is None:
            error = ErrorInfo.from_exception(EngineError("No model is loaded.", remedy="Choose a model."))
            self._writer.send(GenerationFinished(request.request_id, FinishReason.ERROR, None, error))
            return
        generation = Generation(request, self._model, self._writer.send, lambda: request.request_id in self._aborted)
        try:
            generation.run(self._template)
        except Exception as failure:
            error = ErrorInfo.from_exception(failure, traceback.format_exc())
            self._writer.send(GenerationFinished(request.request_id, FinishReason.ERROR, None, error))
        self._aborted.discard(request.request_id)
