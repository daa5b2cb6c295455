"""A contestant in a process of its own, stopped whenever it is not being measured.

Idle threads of one system (OpenMP's spin for a while) would otherwise slow the next one down.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from typing import Any

from engine.benchmark.contestant import Contestant, Setup
from engine.errors import BackendCrashedError, EngineError


def make_contestant(system: str, setup: Setup) -> Contestant:
    if system == "llama.cpp":
        from engine.benchmark.llama_cpp_contestant import LlamaCppContestant

        return LlamaCppContestant(setup)
    if system == "tessera":
        from engine.benchmark.native_contestant import NativeContestant

        return NativeContestant(setup)
    raise ValueError(f"no system is called {system}")


def _serve(connection: Connection, system: str, setup: Setup) -> None:
    try:
        contestant = make_contestant(system, setup)
        connection.send((True, os.getpid()))
        while True:
            method, arguments = connection.recv()
            connection.send((True, getattr(contestant, method)(*arguments)))
    except EOFError:
        contestant.close()
    except Exception as error:
        connection.send((False, str(error)))


class Worker:
    """Parent side. Raises EngineError with the child's reason, BackendCrashedError when it died."""

    def __init__(self, system: str, setup: Setup) -> None:
        self.system = system
        self.setup = setup
        context = multiprocessing.get_context("spawn")
        self._connection, child = context.Pipe()
        self._process = context.Process(target=_serve, args=(child, system, setup), daemon=True)
        self._process.start()
        child.close()
        self._receive()
        self._pause()

    @property
    def label(self) -> str:
        return f"{self.system}, {self.setup.variant}" if self.setup.variant else self.system

    def prefill(self, tokens: int) -> float:
        return float(self._call("prefill", tokens))

    def fill(self, depth: int) -> None:
        self._call("fill", depth)

    def decode(self, tokens: int) -> float:
        return float(self._call("decode", tokens))

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
        self._connection.send((method, arguments))
        result = self._receive()
        self._pause()
        return result

    def _receive(self) -> Any:
        try:
            good, value = self._connection.recv()
        except EOFError:
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
