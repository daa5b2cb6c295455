"""The one way off the main thread and back: run_in_background(fn, on_done, on_error)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Qt, Signal

T = TypeVar("T")


class MainThread(QObject):
    """Runs functions on the thread that made it; `post` may be called from any thread."""

    _posted = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._posted.connect(self._run, Qt.ConnectionType.QueuedConnection)
        self._closed = False

    def post(self, function: Callable[[], None]) -> None:
        if not self._closed:
            try:
                self._posted.emit(function)
            except RuntimeError:  # the window is gone: nobody is left to tell
                self._closed = True

    def close(self) -> None:
        self._closed = True

    def _run(self, function: Callable[[], None]) -> None:
        if not self._closed:
            function()


class Background:
    """Short jobs, each on a thread of its own; results come back on the main thread."""

    def __init__(self, main_thread: MainThread) -> None:
        self._main_thread = main_thread

    def run_in_background(
        self,
        fn: Callable[[], T],
        on_done: Callable[[T], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        """Call `fn` off the main thread, then `on_done(result)` or `on_error(exception)` on it.

        An exception nobody takes goes to the crash handler, as any other one.
        """

        def work() -> None:
            try:
                result: Any = fn()
            except Exception as error:
                if on_error is None:
                    raise
                failure = error
                self._main_thread.post(lambda: on_error(failure))
                return
            if on_done is not None:
                self._main_thread.post(lambda: on_done(result))

        threading.Thread(target=work, name="background", daemon=True).start()
