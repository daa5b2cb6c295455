"""Tells of a long answer or download that ended while nobody looked. A tray icon only while something runs."""

from __future__ import annotations

import time

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

from app.settings.values import Settings
from app.theme.theme import Theme
from app.translation import tr

LONG = 8.0  # seconds; shorter work is not worth a notification
SHOWN_MS = 8000


class Notifications(QObject):
    """`begin` and `end` name pieces of work; what ended is told if the window is not active."""

    def __init__(self, window: QWidget, theme: Theme, settings: Settings) -> None:
        super().__init__(window)
        self._window = window
        self._theme = theme
        self._settings = settings
        self._running: dict[str, float] = {}
        self.tray: QSystemTrayIcon | None = None  # only while something runs, and a moment longer
        self._hide_timer = QTimer(self)
        self._hide_timer.setSingleShot(True)
        self._hide_timer.setInterval(SHOWN_MS)
        self._hide_timer.timeout.connect(self.hide_if_idle)
        self.told: list[str] = []  # newest last

    def begin(self, key: str) -> None:
        self._running.setdefault(key, time.monotonic())
        self._show_tray()

    def end(self, key: str, words: str) -> None:
        """`words` say what ended; empty: nothing worth telling."""
        began = self._running.pop(key, None)
        if began is not None and words and time.monotonic() - began >= LONG:
            self._tell(words)
        self._hide_timer.start()

    def _tell(self, words: str) -> None:
        if not self._settings["notifications"] or self._window.isActiveWindow():
            return
        self.told.append(words)
        QApplication.alert(self._window)
        if self.tray is not None:
            self.tray.showMessage("Tessera", words, self._theme.icon("tessera"), SHOWN_MS)

    def _show_tray(self) -> None:
        if self.tray is None and QSystemTrayIcon.isSystemTrayAvailable():
            self.tray = QSystemTrayIcon(self._theme.icon("tessera"), self)
            self.tray.setToolTip(tr("Tessera is working"))
            self.tray.activated.connect(self._activated)
            self.tray.show()

    def _activated(self) -> None:
        self._window.show()
        self._window.raise_()
        self._window.activateWindow()

    def hide_if_idle(self) -> None:
        if not self._running and self.tray is not None:
            self.tray.hide()
            self.tray.deleteLater()
            self.tray = None
