"""The child process as its parent sees it: commands go in, events come out, and one day it has ended."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import tempfile
import threading

from engine.child_process import child_command
from engine.messages import Command, Event

from .framing import MessageWriter, receive

_OUTPUT_BYTES = 4000

# llama.cpp's OpenMP threads wait for each other in loops after every operation, by default for very long: beside
# other programs, a token then takes 3 to 100 times as long. This many turns (some 40 µs) are enough otherwise.
_SPIN_COUNT = "2000"


class ChildProcess:
    """`events` yields the child's events in order, and None once it has ended, asked or not."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  (closed in `end`)
        self._process = subprocess.Popen(
            child_command("engine.backends.llama_cpp"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._output,
            env={"GOMP_SPINCOUNT": _SPIN_COUNT, "GGML_NO_BACKTRACE": "1", **os.environ},
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._sink, self._source = self._process.stdin, self._process.stdout
        self._writer = MessageWriter(self._sink)
        self._reader = threading.Thread(target=self._read, name="compatibility engine", daemon=True)
        self._reader.start()

    @property
    def id(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, command: Command) -> None:
        """A dead child is not reported here, but by `events`."""
        with contextlib.suppress(OSError, ValueError):
            self._writer.send(command)

    def end(self) -> None:
        """Kill the child, which holds nothing that must be saved, and wait for it. May be called twice."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        with contextlib.suppress(OSError):
            self._sink.close()
        self._source.close()
        self._output.close()

    def ending(self) -> str:
        """How a child that ended did so: a signal's name or an exit code."""
        code = self._process.wait()
        if code < 0:
            with contextlib.suppress(ValueError):
                return signal.Signals(-code).name
        return f"exit code {code}"

    def output(self) -> str:
        """The end of what the child wrote to stderr."""
        with contextlib.suppress(OSError, ValueError):
            size = self._output.seek(0, 2)
            self._output.seek(max(0, size - _OUTPUT_BYTES))
            return self._output.read().decode("utf-8", "replace")
        return ""

    def _read(self) -> None:
        try:
            while (event := receive(self._source)) is not None:
                self.events.put(event)
        except pickle.UnpicklingError:
            self._process.kill()  # what speaks there is not our child any more
        self.events.put(None)
