"""A contestant in a process of its own, stopped whenever it is not being measured.

Idle threads of one system (OpenMP's spin for a while) would otherwise slow the next one down.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Literal

import psutil

from engine.benchmark.contestant import Answerer, Contestant, Pause, Setup
from engine.errors import BackendCrashedError, EngineError
from engine.text.llama_library import llama

Role = Literal["steps", "answers"]  # evaluates given tokens, or makes answers from the file on

_CONTESTANTS = {
    ("tessera", "steps"): ("native_contestant", "NativeContestant"),
    ("tessera", "answers"): ("native_answerer", "NativeAnswerer"),
    ("llama.cpp", "steps"): ("llama_cpp_contestant", "LlamaCppContestant"),
    ("llama.cpp", "answers"): ("llama_cpp_answerer", "LlamaCppAnswerer"),
}


def _contestant_type(system: str, role: Role) -> Callable[[Setup], Contestant | Answerer]:
    """Imports what the system needs, and nothing of the others."""
    module, name = _CONTESTANTS[system, role]
    found: Callable[[Setup], Contestant | Answerer] = getattr(
        importlib.import_module(f"engine.benchmark.{module}"), name
    )
    return found


def _private_bytes() -> int:
    """Memory of this process that no file backs: what it holds beyond mapped models and libraries."""
    process = psutil.Process()
    info = process.memory_info()
    return int(info.rss - info.shared if hasattr(info, "shared") else process.memory_full_info().uss)


def _serve(connection: Connection, system: str, setup: Setup, role: Role) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl+C ends it at once, without a word
    try:
        make = _contestant_type(system, role)
        llama()  # every system uses llama.cpp's library, some import it earlier: no one's own memory
        before = _private_bytes()
        contestant = make(setup)
        connection.send((True, os.getpid()))
        while True:
            method, arguments = connection.recv()
            if method == "held_bytes":
                connection.send((True, _private_bytes() - before))
            else:
                connection.send((True, getattr(contestant, method)(*arguments)))
    except EOFError:
        contestant.close()
    except Exception as error:
        connection.send((False, str(error)))


class Worker:
    """Parent side. Raises EngineError with the child's reason, BackendCrashedError when it died."""

    def __init__(self, system: str, setup: Setup, role: Role = "steps") -> None:
        self.system = system
        self.setup = setup
        self._threads = setup.threads
        context = multiprocessing.get_context("spawn")
        self._connection, child = context.Pipe()
        self._process = context.Process(target=_serve, args=(child, system, setup, role), daemon=True)
        self._process.start()
        child.close()
        self._receive()
        self._pause()

    @property
    def name(self) -> str:
        return f"{self.system}, {self.setup.variant}" if self.setup.variant else self.system

    @property
    def label(self) -> str:
        """The name, and the number of threads where it is not the one asked for."""
        if self._threads == self.setup.threads:
            return self.name
        return f"{self.name}, {self._threads} thread{'s' if self._threads > 1 else ''}"

    def use_threads(self, count: int) -> None:
        """From the next evaluation on. The peer's only: our own pool is made once."""
        if count != self._threads:
            self._call("use_threads", count)
            self._threads = count

    def prefill(self, tokens: int) -> float:
        return float(self._call("prefill", tokens))

    def fill(self, depth: int) -> None:
        self._call("fill", depth)

    def decode(self, tokens: int) -> float:
        return float(self._call("decode", tokens))

    def first_token(self) -> float:
        return float(self._call("first_token"))

    def pause(self, tokens: int) -> Pause:
        found = self._call("pause", tokens)
        assert isinstance(found, Pause)
        return found

    def held_bytes(self) -> int:
        """Private memory beyond what the process held before it made the contestant, its imports already done."""
        return int(self._call("held_bytes"))

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError, OSError):
            self._signal("SIGCONT")
            self._connection.close()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _call(self, method: str, *arguments: Any) -> Any:
        self._signal("SIGCONT")
        with contextlib.suppress(ConnectionError):  # of a process that has ended: receiving says so
            self._connection.send((method, arguments))
        result = self._receive()
        self._pause()
        return result

    def _receive(self) -> Any:
        try:
            good, value = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            raise BackendCrashedError(
                f"The measured system {self.label} ended by itself (exit code {self._process.exitcode})."
            ) from None
        if not good:
            raise EngineError(f"The measured system {self.label} failed: {value}")
        return value

    def _pause(self) -> None:
        self._signal("SIGSTOP")

    def _signal(self, name: str) -> None:
        # Windows has no such signals; there the systems merely idle.
        if hasattr(signal, name) and self._process.pid is not None:
            os.kill(self._process.pid, getattr(signal, name))
