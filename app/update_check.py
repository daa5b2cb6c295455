"""Looking for a newer version: when the owner asks, or once a week where that is switched on. Nothing else is sent."""

from __future__ import annotations

import time

from PySide6.QtCore import QObject, Signal

from app.background import Background
from app.settings.values import Settings

WEEK_SECONDS = 7 * 24 * 3600


class UpdateCheck(QObject):
    found = Signal(object)  # engine.hub.updates.Release
    failed = Signal(object)  # Exception

    def __init__(self, settings: Settings, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._settings, self._background = settings, background
        self.is_running = False

    @property
    def feed(self) -> str:
        """Where to ask; empty: nowhere."""
        return str(self._settings["update_feed"]).strip()

    def start_if_due(self) -> None:
        """At the start of the application: asks only where the owner has switched it on, and a week has passed."""
        waited = time.time() - self._settings["last_update_check"]
        if self._settings["update_check"] and self.feed and not 0 <= waited < WEEK_SECONDS:
            self.start()

    def start(self) -> None:
        """Ask once, off the main thread; `found` or `failed` follows."""
        if self.is_running or not self.feed:
            return
        self.is_running = True
        self._settings.set("last_update_check", int(time.time()))
        feed = self.feed

        def ask() -> object:
            from app.library.hub_services import make_settings
            from engine.hub.updates import newest_release
            from engine.telemetry.doctor import version

            return newest_release(feed, version(), make_settings(self._settings.__getitem__))

        self._background.run_in_background(ask, self._ended, self._failed)

    def _ended(self, release: object) -> None:
        self.is_running = False
        self.found.emit(release)

    def _failed(self, error: Exception) -> None:
        self.is_running = False
        self.failed.emit(error)
