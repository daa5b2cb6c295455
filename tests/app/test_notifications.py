"""A long answer that ends unseen is told; short ones and seen ones are not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from app import notifications
from engine.hub.download_status import DownloadStatus, State
from engine.messages import FinishReason, GenerationFinished


@pytest.fixture
def told(app, monkeypatch):
    box = app.window.notifications
    clock = [100.0]
    monkeypatch.setattr(notifications, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    active = [False]
    monkeypatch.setattr(app.window, "isActiveWindow", lambda: active[0], raising=False)

    def work(seconds: float, *, seen: bool = False) -> list[str]:
        box.begin("work")
        clock[0] += seconds
        active[0] = seen
        box.end("work", "It is done")
        return list(box.told)

    return app, work, clock


def status(state: State) -> DownloadStatus:
    return DownloadStatus("d1", "big.gguf", "a/b", Path(), state, "", 0, 1, 0.0, None, ())


def test_long_and_unseen(told):
    _, work, _ = told
    assert work(notifications.LONG + 1) == ["It is done"]


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (State.DONE, ["Downloaded: big.gguf"]),
        (State.FAILED, ["A download failed: big.gguf"]),
        (State.PAUSED, []),
        (None, []),  # removed from the list
    ],
)
def test_a_download_that_ends_unseen_is_told(told, end, words):
    app, _, clock = told
    watch = app.context.library.downloads
    watch.statuses = (status(State.RUNNING),)
    watch.changed.emit()
    watch.changed.emit()
    clock[0] += notifications.LONG + 1
    watch.statuses = (status(end),) if end is not None else ()
    watch.changed.emit()
    watch.changed.emit()
    assert app.window.notifications.told == words


def test_a_long_answer_that_ends_unseen_is_told_with_its_title(told, qtbot):
    app, _, clock = told
    app.engine.answer = None
    app.session.send("How do I lay a mosaic?")
    request = app.engine.requests()[-1]
    clock[0] += notifications.LONG + 1
    app.engine.emit(GenerationFinished(request.request_id, FinishReason.STOP, None))
    qtbot.waitUntil(lambda: bool(app.window.notifications.told))
    assert app.window.notifications.told == ["An answer is ready: How do I lay a mosaic?"]


def test_the_tray_shows_only_while_something_runs(app, monkeypatch):
    monkeypatch.setattr(notifications.QSystemTrayIcon, "isSystemTrayAvailable", lambda: True)
    box = app.window.notifications
    assert box.tray is None
    box.begin("a")
    box.begin("b")
    assert box.tray is not None
    box.end("a", "")
    box.hide_if_idle()
    assert box.tray is not None  # b still runs
    box.end("b", "")
    box.hide_if_idle()
    assert box.tray is None


def test_short_or_seen_is_not_worth_it(told):
    _, work, _ = told
    assert work(notifications.LONG - 1) == []
    assert work(notifications.LONG + 1, seen=True) == []


def test_they_can_be_switched_off(told):
    app, work, _ = told
    app.context.settings.set("notifications", False)
    assert work(notifications.LONG + 1) == []
