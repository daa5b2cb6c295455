"""The parent's side of the template worker: one warm process, restarted when a template takes it down."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import struct
import subprocess
import threading
from typing import Any

from engine.child_process import child_command
from engine.errors import TemplateError

MAX_WALL_SECONDS = 6.0


class RaisedInTemplateError(TemplateError):
    """The template itself refused the conversation with `raise_exception`."""


class TemplateRenderer:
    """`render` may be called from any thread; one template renders at a time."""

    def __init__(self, max_seconds: float = MAX_WALL_SECONDS) -> None:
        self._max_seconds = max_seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin starting the process, without waiting for it."""
        with self._lock:
            self._running()

    def render(self, source: str, variables: dict[str, Any]) -> str:
        """Text of the Jinja template `source`. Raises TemplateError with the template's line."""
        request = json.dumps({"source": source, "variables": variables}).encode()
        with self._lock:
            reply = self._exchange(request)
        if reply is None:
            raise template_error("it ran too long, or needed too much memory, and was stopped", None)
        if "text" in reply:
            return str(reply["text"])
        kind = RaisedInTemplateError if reply["raised"] else TemplateError
        raise template_error(reply["error"], reply["line"], kind)

    def close(self) -> None:
        with self._lock:
            self._end()

    def _exchange(self, request: bytes) -> dict[str, Any] | None:
        """The worker's reply; None when it died or had to be killed."""
        process = self._running()
        watchdog = threading.Timer(self._max_seconds, process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(struct.pack("<I", len(request)) + request)
            process.stdin.flush()
            header = process.stdout.read(4)
            data = process.stdout.read(struct.unpack("<I", header)[0]) if len(header) == 4 else b""
            reply: dict[str, Any] = json.loads(data)
            return reply
        except (OSError, ValueError):
            self._end()
            return None
        finally:
            watchdog.cancel()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = subprocess.Popen(
                child_command("engine.text.template_worker"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        process.wait()


@functools.cache
def shared_renderer() -> TemplateRenderer:
    renderer = TemplateRenderer()
    atexit.register(renderer.close)
    return renderer


def template_error(reason: str, line: int | None, kind: type[TemplateError] = TemplateError) -> TemplateError:
    where = f" at line {line}" if line else ""
    return kind(f"The chat template failed{where}: {reason.rstrip('.')}.", remedy="Correct the template.")
