"""Nobody is asked for updates unless the owner wants it, and then not more than once a week."""

from __future__ import annotations

import json
import time

import pytest
from PySide6.QtWidgets import QLabel

from app.settings.values import Settings
from app.update_check import WEEK_SECONDS
from engine.hub import updates
from engine.hub.errors import ProtocolError
from engine.hub.updates import Release

FEED = "https://example.org/latest.json"


@pytest.fixture
def asked(monkeypatch) -> list[str]:
    """The addresses that were asked, in place of the network."""
    found: list[str] = []

    def newest(feed: str, current: str, _settings: object) -> Release:
        found.append(feed)
        if "broken" in feed:
            raise ProtocolError("It holds no release.", remedy="Check it.")
        return Release("9.0.0", "https://example.org/9", is_newer=True)

    monkeypatch.setattr(updates, "newest_release", newest)
    return found


def prepare(data_folder, **values) -> None:
    settings = Settings(data_folder.settings)
    for name, value in values.items():
        settings.set(name, value)


def cards(app) -> dict[str, object]:
    return {card.problem.key: card.problem for card in app.page.problem_stack.cards}


def test_it_is_off_until_the_owner_switches_it_on(start, qtbot, data_folder, asked):
    prepare(data_folder, update_feed=FEED)
    assert not Settings(data_folder.settings)["update_check"]
    app = start()
    qtbot.wait(50)
    assert asked == []
    assert "update" not in cards(app)


def test_once_a_week_a_newer_version_is_told(start, qtbot, data_folder, asked):
    prepare(data_folder, update_feed=FEED, update_check=True)
    app = start()
    qtbot.waitUntil(lambda: "update" in cards(app))
    assert "9.0.0" in cards(app)["update"].cause
    app.context.close()
    again = start()
    qtbot.wait(50)
    assert asked == [FEED]
    assert "update" not in cards(again)
    again.context.close()
    last = json.loads(data_folder.settings.read_text())["last_update_check"]
    assert abs(last - time.time()) < 300
    prepare(data_folder, last_update_check=last - WEEK_SECONDS)
    start()
    qtbot.waitUntil(lambda: asked == [FEED, FEED])


def test_without_an_address_nobody_is_asked(start, qtbot, data_folder, asked):
    prepare(data_folder, update_check=True)
    app = start()
    app.window.show_page("updates")
    page = app.window.page("updates")
    assert not page.check.isEnabled()
    page._start()
    qtbot.wait(50)
    assert asked == []


def test_the_button_asks_at_once_and_says_what_went_wrong(start, qtbot, data_folder, asked):
    prepare(data_folder, update_feed=FEED)
    app = start()
    app.window.show_page("preferences")
    app.window.page("preferences").links["updates"].button.click()
    page = app.window.page("updates")
    page.check.click()
    qtbot.waitUntil(lambda: page.open.isVisibleTo(page))
    assert any("9.0.0" in label.text() for label in page.findChildren(QLabel))
    app.context.settings.set("update_feed", "https://example.org/broken.json")
    page.check.click()
    qtbot.waitUntil(lambda: page.notice.isVisibleTo(page))
    assert page.notice.cause.text() == "It holds no release."
    assert page.check.isEnabled()
