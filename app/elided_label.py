"""One line of text that ends in an ellipsis where there is no room for it."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel


class ElidedLabel(QLabel):
    """`show_line` is for words that change many times a second: unlike `setText` it does not lay the page out anew."""

    _line = ""

    def show_line(self, text: str) -> None:
        if text != self._line:
            self._line = text
            self.setAccessibleName(text)
            self.update()

    @property
    def line(self) -> str:
        return self._line or self.text()

    def minimumSizeHint(self) -> QSize:
        return QSize(24, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(self.palette().windowText().color())
        text = QFontMetrics(self.font()).elidedText(self.line, Qt.TextElideMode.ElideRight, self.width())
        painter.drawText(self.rect(), int(self.alignment() | Qt.AlignmentFlag.AlignVCenter), text)
        painter.end()
