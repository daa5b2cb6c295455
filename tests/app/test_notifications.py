"""A long answer that ends unseen is told; short ones and seen ones are not."""

from __future__ import annotations

import pytest

from app import notifications


@pytest.fixture
def told(app, monkeypatch):
    box = app.window.notifications
    clock = [100.0]
    monkeypatch.setattr(notifications.time, "monotonic", lambda: clock[0])
    active = [False]
    monkeypatch.setattr(app.window, "isActiveWindow", lambda: active[0], raising=False)

    def work(seconds: float, *, seen: bool = False) -> list[str]:
        box.begin("work")
        clock[0] += seconds
        active[0] = seen
        box.end("work", "It is done")
        return list(box.told)

    return app, work


def test_long_and_unseen(told):
    _, work = told
    assert work(notifications.LONG + 1) == ["It is done"]


def test_short_or_seen_is_not_worth_it(told):
    _, work = told
    assert work(notifications.LONG - 1) == []
    assert work(notifications.LONG + 1, seen=True) == []


def test_they_can_be_switched_off(told):
    app, work = told
    app.context.settings.set("notifications", False)
    assert work(notifications.LONG + 1) == []
