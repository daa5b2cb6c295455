"""Unexpected errors are logged, shown, and end nothing."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from PySide6.QtCore import QTimer

from app.crash import LOG_FILES, CrashHandler, log


@pytest.fixture
def handler(tmp_path):
    handler = CrashHandler(tmp_path)
    handler.install()
    yield handler
    handler.uninstall()


def test_exceptions_of_every_thread_are_logged_and_told(handler):
    told = []
    handler.on_exception = told.append
    sys.excepthook(ValueError, ValueError("on the main thread"), None)

    def fail():
        raise RuntimeError("elsewhere")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    assert [str(error) for error in told] == ["on the main thread", "elsewhere"]
    text = handler.log_file.read_text()
    assert "on the main thread" in text
    assert "in fail" in text


def test_an_error_while_reporting_is_only_logged(handler):
    def broken(error):
        raise OSError("cannot show")

    handler.on_exception = broken
    sys.excepthook(ValueError, ValueError("first"), None)
    assert "cannot show" in handler.log_file.read_text()


def test_the_log_never_takes_more_than_a_few_small_files(tmp_path, monkeypatch):
    monkeypatch.setattr("app.crash.LOG_BYTES", 2000)
    handler = CrashHandler(tmp_path)
    handler.install()
    for number in range(200):
        log.info("line %d of many that are written into the log", number)
    handler.uninstall()
    files = sorted(path.name for path in tmp_path.glob("tessera.log*"))
    assert files == ["tessera.log", *(f"tessera.log.{number}" for number in range(1, LOG_FILES + 1))]
    assert all((tmp_path / name).stat().st_size <= 2000 for name in files)
    assert "line 199 " in handler.log_file.read_text()


def test_a_native_crash_is_known_at_the_next_start(tmp_path):
    script = (
        "import faulthandler, sys, pathlib; from app.crash import CrashHandler;"
        "CrashHandler(pathlib.Path(sys.argv[1])).install(); faulthandler._sigsegv()"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, timeout=60)
    assert done.returncode != 0
    handler = CrashHandler(tmp_path)
    handler.install()
    assert handler.crashed_before
    assert "Segmentation fault" in handler.last_native_log.read_text()
    handler.uninstall()
    again = CrashHandler(tmp_path)
    again.install()
    assert not again.crashed_before
    again.uninstall()


def test_the_window_shows_it_and_goes_on(app, qtbot):
    handler = app.context.crash_handler
    handler.install()
    try:
        QTimer.singleShot(0, lambda: sys.excepthook(KeyError, KeyError("surprise"), None))
        qtbot.waitUntil(lambda: bool(app.page.problem_stack.cards))
        problem = app.page.problem_stack.cards[0].problem
        assert "surprise" in problem.cause
        assert str(handler.log_file) in problem.done
        app.session.send("Still there?")
        qtbot.waitUntil(lambda: len(app.session.path()) == 2)
    finally:
        handler.uninstall()
