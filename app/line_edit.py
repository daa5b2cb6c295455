"""A line of text whose Enter and Esc belong to the input method while it composes."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QInputMethodEvent, QKeyEvent
from PySide6.QtWidgets import QLineEdit

OF_THE_INPUT_METHOD = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Escape)


class LineEdit(QLineEdit):
    is_composing = False  # an input method holds text that is not committed yet

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        self.is_composing = bool(event.preeditString())
        super().inputMethodEvent(event)

    def event(self, event: QEvent) -> bool:
        if self.is_composing and event.type() == QEvent.Type.ShortcutOverride:
            event.accept()  # no key of an input method is a shortcut of the window
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if not (self.is_composing and event.key() in OF_THE_INPUT_METHOD):
            super().keyPressEvent(event)
