"""The parent's side of the compatibility engine: one child process per model, the same commands and events.

A new model loads in a new child while the old one still serves, so a file that takes its process down costs
nothing else. When a child dies on its own, every open request ends with BackendCrashedError, and the next
request starts a new child with the same model.
"""

from __future__ import annotations

import contextlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace

from engine.errors import BackendCrashedError, EngineError
from engine.messages import (
    Abort,
    Command,
    ErrorInfo,
    Event,
    FinishReason,
    Generate,
    GenerationFinished,
    LoadModel,
    ModelLoaded,
    ModelLoadFailed,
    ModelUnloaded,
    Notice,
    Shutdown,
    UnloadModel,
)

from .framing import MessageWriter, receive


class CompatibilityBackend:
    """`on_event` is called from a reader thread, one event at a time; it should only queue the event."""

    def __init__(self, on_event: Callable[[Event], None]) -> None:
        self._on_event = on_event
        self._lock = threading.RLock()
        self._current: _ChildProcess | None = None  # serves
        self._pending: _ChildProcess | None = None  # loads; takes over once its model is there
        self._crashed: LoadModel | None = None  # what to load again for the next request

    def send(self, command: Command) -> None:
        """Never raises for what happens in the child: that comes as events."""
        with self._lock:
            match command:
                case LoadModel():
                    self._load(command)
                case Generate():
                    self._generate(command)
                case Abort():
                    for child in (self._current, self._pending):
                        if child is not None:
                            child.send(command)
                case UnloadModel():
                    self._unload()
                case Shutdown():
                    self.close()

    def close(self) -> None:
        """End every child and wait for it; open requests get no further events."""
        with self._lock:
            children = (self._current, self._pending)
            self._current = self._pending = self._crashed = None
        for child in children:
            if child is not None:
                child.end()
                child.join()

    @property
    def process_id(self) -> int | None:
        """The child that serves or loads now."""
        with self._lock:
            child = self._pending or self._current
            return None if child is None else child.process.pid

    # --- commands ----------------------------------------------------------------------------------------------

    def _load(self, command: LoadModel) -> None:
        self._drop(self._pending)
        self._crashed = None
        self._pending = _ChildProcess(command, self._receive, self._died)
        self._pending.send(command)

    def _generate(self, command: Generate) -> None:
        if self._current is None and self._pending is None and self._crashed is not None:
            self._load(self._crashed)
        child = self._pending or self._current
        if child is None:
            error = EngineError("No model is loaded.", remedy="Choose a model.")
            self._fail(command.request.request_id, error)
            return
        child.open_requests.add(command.request.request_id)
        child.send(command)

    def _unload(self) -> None:
        child, self._crashed = self._current, None
        self._drop(self._pending)
        self._drop(child)
        self._current = self._pending = None
        if child is not None:
            self._on_event(ModelUnloaded(child.load.path))

    def _drop(self, child: _ChildProcess | None) -> None:
        """End a child that is no longer wanted; its open requests are aborted."""
        if child is not None:
            child.end()
            for request_id in child.open_requests:
                self._on_event(GenerationFinished(request_id, FinishReason.ABORTED, None))

    # --- events from a child's reader thread -------------------------------------------------------------------

    def _receive(self, child: _ChildProcess, event: Event) -> None:
        with self._lock:
            if child not in (self._current, self._pending):
                return
            if isinstance(event, GenerationFinished):
                child.open_requests.discard(event.request_id)
            elif isinstance(event, ModelLoaded):
                self._drop(self._current)
                self._current, self._pending = child, None
            elif isinstance(event, ModelLoadFailed):
                event = replace(event, still_loaded=self._current.load.path if self._current else None)
                self._pending = None
                child.end()
            self._on_event(event)
            if isinstance(event, ModelLoadFailed):
                self._end_requests(child, event.error)

    def _died(self, child: _ChildProcess) -> None:
        """The child's pipe ended. Asked for or not?"""
        with self._lock:
            if child is self._pending:
                self._pending = None
                still = self._current.load.path if self._current else None
                error = ErrorInfo.from_exception(child.crash("while it loaded"), child.output())
                self._on_event(ModelLoadFailed(child.load.path, error, still))
            elif child is self._current:
                self._current, self._crashed = None, child.load
                failure = child.crash("while it answered" if child.open_requests else "while it was idle")
                error = ErrorInfo.from_exception(failure, child.output())
                if not child.open_requests:
                    self._on_event(Notice(failure.cause, failure.remedy))
            else:
                return
            self._end_requests(child, error)
            child.end()

    def _end_requests(self, child: _ChildProcess, error: ErrorInfo) -> None:
        for request_id in sorted(child.open_requests):
            self._on_event(GenerationFinished(request_id, FinishReason.ERROR, None, error))
        child.open_requests.clear()

    def _fail(self, request_id: str, error: EngineError) -> None:
        info = ErrorInfo.from_exception(error)
        self._on_event(GenerationFinished(request_id, FinishReason.ERROR, None, info))


class _ChildProcess:
    """One child, its pipe and its reader thread."""

    def __init__(
        self,
        load: LoadModel,
        on_event: Callable[[_ChildProcess, Event], None],
        on_end: Callable[[_ChildProcess], None],
    ) -> None:
        self.load = load
        self.open_requests: set[str] = set()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  (closed in `close`)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "engine.backends.llama_cpp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._output,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self._source = self.process.stdout
        self._sink = self.process.stdin
        self._writer = MessageWriter(self._sink)
        self._on_event, self._on_end = on_event, on_end
        self._reader = threading.Thread(target=self._read, name="compatibility engine", daemon=True)
        self._reader.start()

    def send(self, command: Command) -> None:
        with contextlib.suppress(OSError, ValueError):  # a dead child is reported by its reader
            self._writer.send(command)

    def end(self) -> None:
        """Kill the child (it holds nothing that must be saved); its reader thread then closes the pipe."""
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(OSError):
            self._sink.close()

    def join(self) -> None:
        """Wait for the reader thread. Not with the backend's lock held, which that thread may want."""
        if threading.current_thread() is not self._reader:
            self._reader.join(timeout=10.0)

    def crash(self, when: str) -> BackendCrashedError:
        """What to tell about a child that ended by itself."""
        code = self.process.wait()
        how = f"exit code {code}"
        if code < 0:
            with contextlib.suppress(ValueError):
                how = signal.Signals(-code).name
        return BackendCrashedError(
            f"The compatibility engine stopped {when} ({how}).",
            done="The window and everything written so far are safe.",
            remedy="Ask again to start it anew; if it happens again, choose another file of this model.",
        )

    def output(self) -> str:
        """The end of what the child wrote to stderr."""
        with contextlib.suppress(OSError, ValueError):
            self._output.seek(0)
            return self._output.read()[-4000:].decode("utf-8", "replace")
        return ""

    def _read(self) -> None:
        with self._source, self._output:
            try:
                while (event := receive(self._source)) is not None:
                    self._on_event(self, event)
            except pickle.UnpicklingError:  # no message of ours: the child cannot be trusted any more
                self.process.kill()
            self._on_end(self)
