"""One trace: its name, its value now, and the last minute as a line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from app.telemetry.history import PER_SECOND, SECONDS
from app.theme.kept_picture import KeptPicture
from app.theme.theme import Theme

Values = Sequence[float | None]
HEAD = 34
LINE = 34


class TraceView(QWidget):
    """`words` writes a value. `top`: of the scale, or None for one that follows the largest value."""

    def __init__(
        self,
        theme: Theme,
        name: str,
        words: Callable[[float | None], str],
        token: str,
        top: float | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme, self._name, self._words, self._token = theme, name, words, token
        self.top = top
        self._values: Values = ()
        self.now = ""
        self._picture = KeptPicture(self, theme, self._draw)
        self.setFixedHeight(HEAD + LINE + 4)
        theme.changed.connect(self.update)

    def show_values(self, values: Values) -> None:
        self._values = values
        self.now = self._words(values[-1] if values else None)
        self.setAccessibleName(f"{self._name}: {self.now}")
        self._picture.forget()

    def sizeHint(self) -> QSize:
        return QSize(150, self.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        self._picture.paint()

    def _draw(self, painter: QPainter) -> None:
        theme = self._theme
        painter.setFont(theme.font(theme.type.tiny))
        painter.setPen(theme.color("muted"))
        painter.drawText(QRectF(0, 0, self.width(), 15), Qt.AlignmentFlag.AlignLeft, self._name)
        painter.setFont(theme.font(theme.type.control, theme.font(1).Weight.DemiBold))
        painter.setPen(theme.color("text" if self._values and self._values[-1] is not None else "muted"))
        painter.drawText(QRectF(0, 15, self.width(), 18), Qt.AlignmentFlag.AlignLeft, self.now)
        base = HEAD + LINE + 0.5
        painter.setPen(QPen(theme.color("border"), 1))
        painter.drawLine(QPointF(0, base), QPointF(self.width(), base))
        self._paint_line(painter, base)

    def _paint_line(self, painter: QPainter, base: float) -> None:
        known = [value for value in self._values if value is not None]
        top = self.top or max([*known, 1e-9]) * 1.1
        step = self.width() / (SECONDS * PER_SECOND - 1)
        left = self.width() - step * (len(self._values) - 1)
        color = self._theme.color(self._token)
        soft = self._theme.color(self._token)
        soft.setAlpha(36)
        for start, run in _runs(self._values):
            path = QPainterPath()
            for number, value in enumerate(run, start):
                point = QPointF(left + number * step, base - 1 - (LINE - 2) * min(1.0, value / top))
                path.lineTo(point) if number > start else path.moveTo(point)
            area = QPainterPath(path)
            area.lineTo(left + (start + len(run) - 1) * step, base)
            area.lineTo(left + start * step, base)
            painter.fillPath(area, soft)
            painter.setPen(QPen(color, 1.4))
            painter.drawPath(path)


def _runs(values: Values) -> list[tuple[int, list[float]]]:
    """Stretches without gaps, and where each begins."""
    found: list[tuple[int, list[float]]] = []
    gap = True
    for number, value in enumerate(values):
        if value is None:
            gap = True
        elif gap:
            found.append((number, [value]))
            gap = False
        else:
            found[-1][1].append(value)
    return found
