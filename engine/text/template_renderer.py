"""The parent's side of the template worker: one warm process, restarted when a template takes it down."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import threading
from typing import Any

from engine.errors import TemplateError
from engine.text.framed_child import FramedChild

MAX_WALL_SECONDS = 6.0


class RaisedInTemplateError(TemplateError):
    """The template itself refused the conversation with `raise_exception`."""


class TemplateRenderer:
    """`render` may be called from any thread; one template renders at a time."""

    def __init__(self, max_seconds: float = MAX_WALL_SECONDS) -> None:
        self._max_seconds = max_seconds
        self._lock = threading.Lock()
        self._worker = FramedChild("engine.text.template_worker")

    def start(self) -> None:
        """Begin starting the process, without waiting for it; if that fails, `render` will tell."""
        with self._lock, contextlib.suppress(OSError):
            self._worker.start()

    def render(self, source: str, variables: dict[str, Any]) -> str:
        """Text of the Jinja template `source`. Raises TemplateError with the template's line."""
        request = json.dumps({"source": source, "variables": variables}).encode()
        with self._lock:
            data = self._worker.exchange(request, self._max_seconds)
        if data is None:
            raise template_error("it ran too long, or needed too much memory, and was stopped", None)
        reply: dict[str, Any] = json.loads(data)
        if "text" in reply:
            return str(reply["text"])
        kind = RaisedInTemplateError if reply["raised"] else TemplateError
        raise template_error(reply["error"], reply["line"], kind)

    def close(self) -> None:
        with self._lock:
            self._worker.end()


@functools.cache
def shared_renderer() -> TemplateRenderer:
    renderer = TemplateRenderer()
    atexit.register(renderer.close)
    return renderer


def template_error(reason: str, line: int | None, kind: type[TemplateError] = TemplateError) -> TemplateError:
    where = f" at line {line}" if line else ""
    return kind(f"The chat template failed{where}: {reason.rstrip('.')}.", remedy="Correct the template.")
