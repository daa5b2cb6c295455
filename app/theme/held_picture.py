"""Keeps a window's picture as it is while what comes next is made, so that no turn of the event loop does all of it."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable

import shiboken6
from PySide6.QtCore import QCoreApplication, QEvent, QObject, QPoint, QTimer, Signal
from PySide6.QtGui import QImage, QRegion
from PySide6.QtWidgets import QWidget

SLICE = 3e-3  # seconds per turn of the event loop, in which more than this may be done
PATIENCE = 0.1  # seconds for which more and more changes may put off what is shown


class HeldPicture(QObject):
    """Of the window of `widget`. What the system asks for, as when its size is another, is painted nevertheless."""

    shown = Signal()

    def __init__(self, widget: QWidget, parent: QObject | None = None) -> None:
        super().__init__(parent or widget)
        # What Python owns is not kept: the last to let go of it would delete it, and its children in mid-call. What Qt
        # owns is, as nothing else may: a popup would be found no more, and never be painted again.
        owned = shiboken6.ownedByPython(widget)
        self._found: Callable[[], QWidget | None] = weakref.ref(widget) if owned else lambda: widget
        self._is_held = False
        self._is_wanted = False  # something asked to be painted meanwhile
        self._since = 0.0
        self._left: list[QWidget] = []
        self._nowhere = QImage(1, 1, QImage.Format.Format_RGB32)
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._go_on)

    @property
    def widget(self) -> QWidget | None:
        """None when it has gone."""
        widget = self._found()
        return widget if widget is not None and shiboken6.isValid(widget) else None

    @property
    def may_wait(self) -> bool:
        """It is not held, or has not been for long."""
        return not self._is_held or time.perf_counter() < self._since + PATIENCE

    def hold(self) -> None:
        """Until the next `show`."""
        self._timer.stop()
        widget = self.widget
        if not self._is_held and widget is not None:
            self._is_held, self._since = True, time.perf_counter()
            widget.window().installEventFilter(self)

    def show(self, parts: Iterable[QWidget]) -> None:
        """In a turn of its own, after those in which each of `parts` has drawn the pictures that it keeps of itself."""
        self._left = list(parts)
        self._timer.start(0)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if not self._is_held or event.type() != QEvent.Type.UpdateRequest:
            return False
        self._is_wanted = True
        return True

    def _go_on(self) -> None:
        if not self._left:
            self._timer.stop()
            self._paint()
            return
        end = time.perf_counter() + SLICE
        while self._left:
            part = self._left.pop()
            if shiboken6.isValid(part) and part.isVisible() and not part.visibleRegion().isEmpty():
                part.render(self._nowhere, QPoint(), QRegion(0, 0, 1, 1), QWidget.RenderFlag(0))
            if time.perf_counter() >= end:
                return

    def _paint(self) -> None:
        widget, was_held = self.widget, self._is_held
        self._is_held = False
        if was_held and widget is not None:
            widget.window().removeEventFilter(self)
            if self._is_wanted:
                self._is_wanted = False
                QCoreApplication.sendEvent(widget.window(), QEvent(QEvent.Type.UpdateRequest))
        self.shown.emit()
