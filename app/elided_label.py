"""One line of text that ends in an ellipsis where there is no room for it."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFont, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel


class ElidedLabel(QLabel):
    """`show_line` is for words that change many times a second: unlike `setText` it does not lay the page out anew."""

    _line = ""
    _shown: tuple[tuple[str, int, QFont], str] | None = None  # what is seen of which line; found once

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
        key = (self.line, self.width(), self.font())
        if self._shown is None or self._shown[0] != key:
            elided = QFontMetrics(self.font()).elidedText(self.line, Qt.TextElideMode.ElideRight, self.width())
            self._shown = key, elided
        painter = QPainter(self)
        painter.setPen(self.palette().windowText().color())
        painter.drawText(self.rect(), int(self.alignment() | Qt.AlignmentFlag.AlignVCenter), self._shown[1])
        painter.end()
