"""What happens when something unexpected goes wrong: it is logged, shown, and nothing is lost.

Python exceptions of every thread, Qt's messages and native crashes (faulthandler) end up in one folder of logs.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import logging.handlers
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO

LOG_BYTES = 1 << 20
LOG_FILES = 3

log = logging.getLogger("tessera")


class CrashHandler:
    """Installed once, by the composition root. `on_exception` is told on whatever thread failed."""

    def __init__(self, folder: Path) -> None:
        self.log_file = folder / "tessera.log"
        self.native_log = folder / "native-crash.log"
        self.on_exception: Callable[[BaseException], None] | None = None
        self.crashed_before = False  # the process before this one ended in a native crash
        self._native_file: IO[str] | None = None
        self._handler: logging.Handler | None = None
        self._reporting = threading.local()

    def install(self) -> None:
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.handlers.RotatingFileHandler(
            self.log_file, maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8", delay=True
        )
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(threadName)s %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        self._handler = handler
        with contextlib.suppress(OSError):  # a folder that cannot be written to costs the log, not the application
            self._watch_native_crashes()
        sys.excepthook = self._exception
        threading.excepthook = self._thread_exception

    def _watch_native_crashes(self) -> None:
        self.crashed_before = self.native_log.exists() and self.native_log.stat().st_size > 0
        if self.crashed_before:
            self.native_log.replace(self.last_native_log)
        self._native_file = self.native_log.open("a", encoding="utf-8")
        faulthandler.enable(self._native_file, all_threads=True)

    @property
    def last_native_log(self) -> Path:
        return self.native_log.with_name("last-native-crash.log")

    def uninstall(self) -> None:
        sys.excepthook = sys.__excepthook__
        threading.excepthook = threading.__excepthook__
        faulthandler.disable()
        if self._native_file is not None:
            self._native_file.close()
        if self._handler is not None:
            log.removeHandler(self._handler)
            self._handler.close()

    def report(self, error: BaseException) -> None:
        """Log `error` with its traceback, and tell the window if there is one."""
        log.error("unexpected error", exc_info=(type(error), error, error.__traceback__))
        if self.on_exception is None or getattr(self._reporting, "busy", False):
            return
        self._reporting.busy = True  # an error in the reporting itself is logged, not reported in a circle
        try:
            self.on_exception(error)
        except Exception:
            log.exception("the error could not be shown")
        finally:
            self._reporting.busy = False

    def _exception(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, traceback)
            return
        self.report(error)

    def _thread_exception(self, arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None and not isinstance(arguments.exc_value, SystemExit):
            self.report(arguments.exc_value)


def install_qt_messages() -> None:
    """Qt's own warnings go to the log too."""
    from PySide6.QtCore import QMessageLogContext, QtMsgType, qInstallMessageHandler

    levels = {
        QtMsgType.QtDebugMsg: logging.DEBUG,
        QtMsgType.QtInfoMsg: logging.INFO,
        QtMsgType.QtWarningMsg: logging.WARNING,
        QtMsgType.QtCriticalMsg: logging.ERROR,
        QtMsgType.QtFatalMsg: logging.CRITICAL,
    }

    def handle(kind: QtMsgType, _context: QMessageLogContext, text: str) -> None:
        log.log(levels.get(kind, logging.WARNING), "Qt: %s", text)

    qInstallMessageHandler(handle)
