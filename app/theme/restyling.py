"""Puts another stylesheet on an open window, in slices of the event loop, and shows it at once."""

from __future__ import annotations

import time

import shiboken6
from PySide6.QtCore import QCoreApplication, QEvent, QObject, QTimer
from PySide6.QtWidgets import QApplication, QWidget

from app.theme.held_picture import HeldPicture

SLICE = 3e-3  # seconds per turn of the event loop, which may lay out and paint besides


class Restyling(QObject):
    """Qt alone styles each widget once for every ancestor it has: 160 ms for the memory page. Here each is styled once,
    those on screen first; windows stay as they were until all of theirs are done."""

    def __init__(self, application: QApplication) -> None:
        super().__init__(application)
        self._application = application
        self._left: list[QWidget] = []  # taken from the end
        self._hidden: list[QWidget] = []  # whose turn comes when all that is on screen is shown
        self._held: list[HeldPicture] = []  # windows that are being styled
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._go_on)

    @property
    def is_done(self) -> bool:
        return not self._left and not self._hidden and not self._held

    def start(self, sheet: str) -> None:
        """The stylesheet is in force on return: what is made from now on has it."""
        application = self._application
        if sheet == application.styleSheet():
            return
        if application.styleSheet():
            application.style().unpolish(application)  # forgets the rules found so far, for which Qt would go round
        application.setStyleSheet(sheet)
        self._left, self._hidden = application.allWidgets(), []
        for held in self._held:
            held.hold()
        known = [held.widget for held in self._held]
        for window in application.topLevelWidgets():
            if window.isVisible() and window not in known:
                held = HeldPicture(window, self)
                self._held.append(held)
                held.shown.connect(self._shown)
                held.hold()
        self._timer.start(0)

    def _go_on(self) -> None:
        end = time.perf_counter() + SLICE
        changed = QEvent(QEvent.Type.StyleChange)
        while self._left:
            widget = self._left.pop()
            if shiboken6.isValid(widget):
                if self._held and not widget.isVisible():
                    self._hidden.append(widget)
                else:
                    widget.style().polish(widget)
                    QCoreApplication.sendEvent(widget, changed)
            if time.perf_counter() >= end:
                return
        self._timer.stop()
        self._show()

    def _show(self) -> None:
        """All that is on screen is styled; the rest is when it has been painted, too."""
        for held in self._held:
            window = held.widget
            held.show([window, *window.findChildren(QWidget)] if window is not None else [])

    def _shown(self) -> None:
        held = self.sender()
        self._held = [other for other in self._held if other is not held]
        held.deleteLater()
        if not self._held and self._hidden:
            self._left, self._hidden = self._hidden, []
            self._timer.start(0)
