"""Cyclic garbage is collected on the main thread only: elsewhere it could destroy Qt objects."""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer

INTERVAL_MS = 2000
THRESHOLDS = (700, 10, 10)


class GarbageCollection(QObject):
    """Switches Python's own collection off, and collects from a timer of the thread that made it."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        gc.disable()
        self._timer = QTimer(self)
        self._timer.setInterval(INTERVAL_MS)
        self._timer.timeout.connect(self.collect_if_due)
        self._timer.start()

    def freeze(self) -> None:
        """What exists now (modules, widgets) lives to the end: no later collection has to walk it."""
        gc.collect()
        gc.freeze()

    def collect_if_due(self) -> int:
        """Collects the oldest generation whose count is over its threshold; returns it, or -1."""
        counts = gc.get_count()
        for generation in (2, 1, 0):
            if counts[generation] > THRESHOLDS[generation]:
                gc.collect(generation)
                return generation
        return -1

    def stop(self) -> None:
        self._timer.stop()
        gc.enable()
