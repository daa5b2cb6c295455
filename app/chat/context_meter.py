"""How full the context is, after the last answer."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from app.theme.theme import Theme
from app.translation import tr

NEARLY_FULL = 0.85


class ContextMeter(QWidget):
    """A ring; the numbers are in its tooltip and in its name for screen readers."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._used = 0
        self._length = 0
        self.setFixedSize(30, 30)
        theme.changed.connect(self.update)
        self.hide()

    @property
    def share(self) -> float:
        return min(1.0, self._used / self._length) if self._length else 0.0

    def show_use(self, used: int, length: int) -> None:
        """Tokens in use and how many there may be."""
        self._used, self._length = used, length
        words = tr(
            "Context: {used} of {all} tokens ({percent} %)",
            used=f"{used:,}",
            all=f"{length:,}",
            percent=round(self.share * 100),
        )
        self.setToolTip(words)
        self.setAccessibleName(words)
        self.setVisible(used > 0 and length > 0)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(30, 30)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ring = QRectF(7, 7, 16, 16)
        pen = QPen(QColor(self._theme.colors.pressed), 3.2)
        painter.setPen(pen)
        painter.drawEllipse(ring)
        pen.setColor(QColor(self._theme.colors.warning if self.share > NEARLY_FULL else self._theme.colors.accent))
        pen.setCapStyle(Qt.PenCapStyle.RoundCap)
        painter.setPen(pen)
        painter.drawArc(ring, 90 * 16, -round(self.share * 360 * 16))
        painter.end()
