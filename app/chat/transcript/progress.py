"""Figures of answers being written, shown now and then: what changes faster cannot be read."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

from app.chat.generation import Generation

INTERVAL_MS = 250


class Progress(QObject):
    """Hands to `show` what was added: at once, or once INTERVAL_MS have passed since the last time.

    Best together with the text that came then; the timer is for the last figures before a pause.
    """

    def __init__(self, show: Callable[[Generation], None], parent: QObject) -> None:
        super().__init__(parent)
        self._show = show
        self._waiting: dict[str, Generation] = {}
        self._shown_at = -math.inf
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(2 * INTERVAL_MS)
        self._timer.timeout.connect(self._show_all)

    def add(self, generation: Generation) -> None:
        self._waiting[generation.message.id] = generation
        if time.monotonic() - self._shown_at >= INTERVAL_MS / 1000:
            self._show_all()
        elif not self._timer.isActive():
            self._timer.start()

    def drop(self, message_id: str) -> None:
        """What the message says at its end stays."""
        self._waiting.pop(message_id, None)

    def _show_all(self) -> None:
        self._timer.stop()
        self._shown_at = time.monotonic()
        for generation in self._waiting.values():
            self._show(generation)
        self._waiting.clear()
