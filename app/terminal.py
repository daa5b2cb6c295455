"""The headless front end: the same engine, one answer or a conversation, line by line. Imports no Qt."""

from __future__ import annotations

import queue
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from app.answer_line import facts_line
from engine.hub.names import proper_name
from engine.messages import (
    Abort,
    ChatMessage,
    EngineStopped,
    ErrorInfo,
    Event,
    FinishReason,
    Generate,
    GenerationFinished,
    GenerationRequest,
    GenerationStarted,
    LoadModel,
    LoadOptions,
    ModelInfo,
    ModelLoaded,
    ModelLoadFailed,
    Notice,
    Overflow,
    SamplingParams,
    TokenEvent,
)

if TYPE_CHECKING:
    from app.environment import DataFolder

PROMPT = "\n> "


@dataclass(slots=True)
class TerminalOptions:
    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int | None = None
    load: LoadOptions = field(default_factory=LoadOptions)
    quiet: bool = False


class Terminal:
    """Owns an engine. Answers go to `out`, everything else to `err` (and with `quiet` only errors)."""

    def __init__(self, options: TerminalOptions, out: TextIO | None = None, err: TextIO | None = None) -> None:
        from engine.engine import Engine

        self._options = options
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._engine = Engine(on_event=self._events.put)
        self._info: ModelInfo | None = None
        self._messages: list[ChatMessage] = []
        self._count = 0

    def __enter__(self) -> Terminal:
        self._engine.start()
        return self

    def __exit__(self, *_: object) -> None:
        """What the end has to say is told, too: a trace that could not be written."""
        self._engine.close()
        while not self._events.empty():
            match self._events.get():
                case Notice() as notice:
                    self._notice(notice)
                case EngineStopped(error=ErrorInfo() as error):
                    self._complain(error)

    def load(self, path: Path) -> bool:
        """Whether the model could be loaded; if not, the reason has been told."""
        self._engine.send(LoadModel(str(path), self._options.load))
        while True:
            match self._events.get():
                case ModelLoaded(info=info, seconds=seconds):
                    self._info = info
                    beside = f" and {info.device}" if info.device else ""
                    name = proper_name(Path(info.path).name, info.file_bytes) or info.name  # as in the window
                    self._say(f"{name} {info.quantization}, {info.engine} engine on CPU{beside}, {seconds:.1f} s")
                    for warning in info.warnings:
                        self._say(warning)
                    return True
                case Notice() as notice:
                    self._notice(notice)
                case ModelLoadFailed(error=error) | EngineStopped(error=ErrorInfo() as error):
                    self._complain(error)
                    return False

    def ask(self, text: str) -> bool:
        """Answer one message of the conversation. Whether the answer came without an error."""
        self._messages.append(ChatMessage("user", text))
        finished, answer = self._generate(Overflow.ASK)
        error = finished.error
        if error is not None and error.kind == "ContextOverflowError" and self._wants_trimming(error):
            finished, answer = self._generate(Overflow.TRIM_OLDEST)
            error = finished.error
        if error is not None:
            self._complain(error)
        if answer:
            self._messages.append(ChatMessage("assistant", answer))
        elif error is not None:
            self._messages.pop()
        return error is None

    def converse(self) -> int:
        """Line by line, until the end of the input."""
        self._say("Write a message; an empty line or Ctrl+D ends the conversation, Ctrl+C an answer.")
        while True:
            try:
                text = input(PROMPT if sys.stdin.isatty() else "")
            except (EOFError, KeyboardInterrupt):
                return 0
            if not text.strip():
                return 0
            self.ask(text)

    def _generate(self, overflow: Overflow) -> tuple[GenerationFinished, str]:
        self._count += 1
        options = self._options
        request = GenerationRequest(
            f"terminal-{self._count}",
            tuple(self._messages),
            options.sampling,
            max_tokens=options.max_tokens,
            overflow=overflow,
        )
        self._engine.send(Generate(request))
        pieces: list[str] = []
        while True:
            try:
                event = self._events.get()
                finished = self._show(event, pieces)
            except KeyboardInterrupt:
                self._engine.send(Abort(request.request_id))
                continue
            if finished is not None:
                return finished, "".join(pieces)

    def _show(self, event: Event, pieces: list[str]) -> GenerationFinished | None:
        match event:
            case TokenEvent(text=text):
                pieces.append(text)
                self._out.write(text)
                self._out.flush()
            case GenerationStarted(trimmed_messages=trimmed, warnings=warnings):
                if trimmed:
                    self._say(f"{trimmed} of the oldest messages were left out to fit the context.")
                for warning in warnings:
                    self._say(warning)
            case Notice() as notice:
                self._notice(notice)
            case GenerationFinished() as finished:
                if pieces and not pieces[-1].endswith("\n"):
                    self._out.write("\n")
                self._out.flush()
                if self._info is not None and finished.stats is not None:
                    self._say(facts_line(self._info, finished))
                return finished
            case EngineStopped(error=error):
                reason = error or ErrorInfo("EngineStopped", "The engine has stopped.")
                return GenerationFinished("", FinishReason.ERROR, None, reason)
        return None

    def _wants_trimming(self, error: ErrorInfo) -> bool:
        """The visible choice: only a person at a terminal can make it."""
        if not sys.stdin.isatty() or self._options.quiet:
            return False
        self._say(f"{error.cause} {error.done}")
        try:
            return input("Leave out the oldest messages? [y/N] ").strip().lower() in ("y", "yes")
        except (EOFError, KeyboardInterrupt):
            return False

    def _notice(self, notice: Notice) -> None:
        self._say(" ".join(filter(None, (notice.text, notice.remedy))))

    def _say(self, text: str) -> None:
        if not self._options.quiet:
            print(text, file=self._err, flush=True)

    def _complain(self, error: ErrorInfo) -> None:
        words = " ".join(part for part in (error.cause, error.done, error.remedy) if part)
        print(f"Error: {words}", file=self._err, flush=True)


def run_without_display(folder: DataFolder, chosen: Path | None = None) -> int:
    """The window cannot open: say so, and converse with `chosen` or the model that would have been selected."""
    from app.chat.parameters.table import answering
    from app.model_files import available_models, model_to_begin_with
    from app.settings.values import Settings

    settings = Settings(folder.settings)
    print("There is no display, so the window cannot open. Chatting here instead.", file=sys.stderr)
    models_folder = Path(settings["models_folder"]) if settings["models_folder"] else folder.models
    model = chosen or model_to_begin_with(available_models(models_folder), settings["last_model"])
    if model is None:
        print(f"No model was found in {models_folder}. Put a GGUF file there.", file=sys.stderr)
        return 1
    load = LoadOptions(
        settings["context_length"] or None,
        settings["threads"] or None,
        kv_type=settings["kv_type"],
        engine=settings["engine"],
    )
    with Terminal(TerminalOptions(answering({}).sampling, load=load)) as terminal:
        return terminal.converse() if terminal.load(model) else 1
