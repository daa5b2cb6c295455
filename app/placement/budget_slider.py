"""The budget slider: the curve of speeds stands above the track on the same axis, and a dot rides on it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QBrush,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QPixmap,
    QPolygonF,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractSlider, QWidget

from app.placement.forecast import Marks
from app.placement.words import gib, speed_words
from app.theme.theme import Theme
from app.translation import tr

MiB = 1 << 20
SIDE = 12
CURVE = 92  # pixels above the track
TRACK = 6
SMALL_CURVE = 30


class BudgetSlider(QAbstractSlider):
    """Its value is in MiB. `settled` follows a change by mouse or keys that has come to rest."""

    settled = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None, *, small: bool = False) -> None:
        super().__init__(parent)
        self._theme = theme
        self._small = small
        self._marks = Marks()
        self._curve: tuple[tuple[int, float], ...] = ()
        self._committed = 0
        self._exact = (-1, 0.0)
        self._top = 1.0  # of the speeds' axis
        self._pictures: tuple[tuple[int, str, float], QPixmap, QPixmap] | None = None
        self.setOrientation(Qt.Orientation.Horizontal)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSingleStep(64)
        self.setPageStep(512)
        self.setAccessibleName(tr("GPU memory Tessera may use"))
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFixedHeight(self._base + (26 if small else 40))
        theme.changed.connect(self.update)
        self.valueChanged.connect(self._tell)

    @property
    def _base(self) -> int:
        """Where the curve stands."""
        return SMALL_CURVE if self._small else CURVE

    def show_marks(self, marks: Marks, curve: Sequence[tuple[int, float]]) -> None:
        """The axis reaches to the card's whole memory; the value, to the largest safe budget."""
        self._marks, self._curve, self._exact = marks, tuple(curve), (-1, 0.0)
        self._top = max((speed for _, speed in curve), default=1.0)
        self._pictures = None
        self.blockSignals(True)
        self.setRange(0, marks.largest_safe // MiB)
        self.blockSignals(False)
        self.setEnabled(marks.card > 0)
        self.update()

    def show_budget(self, budget: int) -> None:
        """Without telling anybody."""
        self.blockSignals(True)
        self.setValue(budget // MiB)
        self.blockSignals(False)
        self.update()

    def show_speed(self, budget: int, speed: float) -> None:
        """The plan's own prediction for a budget, where the curve only has points nearby."""
        self._exact = (budget, speed)
        self.update()

    def show_committed(self, budget: int) -> None:
        """What is in force, while another budget is being tried."""
        self._committed = budget
        self.update()

    def speed_at(self, budget: int) -> float:
        """Predicted decode tokens/s, between the curve's points."""
        if budget == self._exact[0]:
            return self._exact[1]
        if not self._curve:
            return 0.0
        place = bisect_right(self._curve, budget, key=lambda point: point[0])
        if place in (0, len(self._curve)):
            return self._curve[min(place, len(self._curve) - 1)][1]
        (low, slow), (high, fast) = self._curve[place - 1], self._curve[place]
        return slow + (fast - slow) * (budget - low) / max(1, high - low)

    def sizeHint(self) -> QSize:
        return QSize(220 if self._small else 520, self.height())

    # --- drawing ----------------------------------------------------------------------------------------------

    def x_of(self, budget: int) -> float:
        return SIDE + (self.width() - 2 * SIDE) * budget / max(1, self._marks.card)

    def _y_of(self, speed: float) -> float:
        return self._base - 4 - (self._base - (8 if self._small else 26)) * speed / self._top

    def _point(self, budget: int, speed: float) -> QPointF:
        return QPointF(self.x_of(budget), self._y_of(speed))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._curve:
            self._paint_curve(painter)
        self._paint_track(painter)
        if self._marks.card and not self._small:
            self._paint_marks(painter)
        if self.isEnabled():
            self._paint_handle(painter)
        painter.end()

    def _paint_curve(self, painter: QPainter) -> None:
        """From two pictures: antialiased areas of that size cost milliseconds, and a drag paints them all the time."""
        key = (self.width(), self._theme.name, self.devicePixelRatioF())
        if self._pictures is None or self._pictures[0] != key:
            self._pictures = key, *self._areas()
        _, whole, reached = self._pictures
        painter.drawPixmap(0, 0, whole)
        painter.save()
        painter.setClipRect(QRectF(0, 0, self.x_of(self.value() * MiB), self.height()))
        painter.drawPixmap(0, 0, reached)
        painter.restore()

    def _areas(self) -> tuple[QPixmap, QPixmap]:
        """The curve and what is below it, lightly and more strongly filled."""
        scale = self.devicePixelRatioF()
        pixmap = QPixmap(QSize(self.width(), self._base) * scale)
        pixmap.setDevicePixelRatio(scale)
        pixmap.fill(self._theme.color("card" if not self._small else "window"))
        painter = QPainter(pixmap)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        line = [self._point(*point) for point in self._curve]
        path = QPainterPath()
        path.addPolygon(QPolygonF([QPointF(line[0].x(), self._base), *line, QPointF(line[-1].x(), self._base)]))
        color = self._theme.color("place_gpu")
        painter.setPen(QPen(color, 1.8))
        painter.drawPolyline(line)
        color.setAlpha(28)
        painter.fillPath(path, color)
        painter.end()
        reached = QPixmap(pixmap)
        painter = QPainter(reached)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        color.setAlpha(58)  # over the 28 before, 80 of 255
        painter.fillPath(path, color)
        painter.end()
        return pixmap, reached

    def _paint_track(self, painter: QPainter) -> None:
        theme, y = self._theme, self._base + 8
        whole = QRectF(SIDE, y, self.width() - 2 * SIDE, TRACK)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.color("pressed"))
        painter.drawRoundedRect(whole, TRACK / 2, TRACK / 2)
        if not self._marks.card:
            return
        safe = self.x_of(self._marks.largest_safe)
        painter.save()
        clip = QPainterPath()
        clip.addRoundedRect(whole, TRACK / 2, TRACK / 2)
        painter.setClipPath(clip)
        painter.setBrush(QBrush(theme.color("other"), Qt.BrushStyle.BDiagPattern))
        painter.drawRect(QRectF(safe, y, whole.right() - safe, TRACK))
        painter.setBrush(theme.color("accent"))
        painter.drawRect(QRectF(SIDE, y, self.x_of(self.value() * MiB) - SIDE, TRACK))
        painter.restore()

    def _paint_marks(self, painter: QPainter) -> None:
        theme, y = self._theme, self._base + 8 + TRACK
        painter.setFont(theme.font(theme.type.tiny))
        metrics = painter.fontMetrics()
        boxes = self._label_boxes([(self.x_of(b), metrics.horizontalAdvance(w)) for b, w in self._mark_words()])
        for (budget, words), left in zip(self._mark_words(), boxes, strict=True):
            x = self.x_of(budget)
            painter.setPen(QPen(theme.color("outline"), 1.2))
            painter.drawLine(QPointF(x, y + 3), QPointF(x, y + 8))
            if left is not None:
                painter.setPen(theme.color("muted"))
                painter.drawText(QPointF(left, y + 11 + metrics.ascent()), words)

    def _label_boxes(self, wanted: list[tuple[float, int]]) -> list[float | None]:
        """Left ends of the three labels: the outer ones under their marks, the middle one where there is room."""
        apart = 16
        ends = [min(max(x - width / 2, 2.0), self.width() - width - 2.0) for x, width in wanted]
        low, high = ends[0] + wanted[0][1] + apart, ends[2] - wanted[1][1] - apart
        if ends[2] < ends[0] + wanted[0][1] + apart:
            return [ends[0], None, None]
        return [ends[0], min(max(ends[1], low), high) if low <= high else None, ends[2]]

    def _mark_words(self) -> list[tuple[int, str]]:
        marks = self._marks
        return [
            (marks.minimum, tr("minimum {size}", size=gib(marks.minimum))),
            (marks.recommended, tr("recommended {size}", size=gib(marks.recommended))),
            (marks.largest_safe, tr("largest safe {size}", size=gib(marks.largest_safe))),
        ]

    def _paint_handle(self, painter: QPainter) -> None:
        theme, budget = self._theme, self.value() * MiB
        x, y = self.x_of(budget), self._base + 8 + TRACK / 2
        if self._committed and abs(self.x_of(self._committed) - x) > 3:
            painter.setPen(QPen(theme.color("outline"), 1.6))
            painter.setBrush(theme.color("card"))
            painter.drawEllipse(QPointF(self.x_of(self._committed), y), 5, 5)
        if self._curve:
            speed = self.speed_at(budget)
            dot = QPointF(x, self._y_of(speed))
            painter.setPen(QPen(theme.color("outline"), 1, Qt.PenStyle.DotLine))
            painter.drawLine(QPointF(x, dot.y() + 6), QPointF(x, y - 9))
            painter.setPen(QPen(theme.color("card"), 2))
            painter.setBrush(theme.color("accent"))
            painter.drawEllipse(dot, 5.5, 5.5)
            if not self._small:
                self._paint_speed(painter, dot, speed_words(speed))
        painter.setPen(QPen(theme.color("accent"), 2))
        painter.setBrush(theme.color("card"))
        painter.drawEllipse(QPointF(x, y), 8, 8)
        if self.hasFocus():
            painter.setBrush(theme.color("accent"))
            painter.setPen(Qt.PenStyle.NoPen)
            painter.drawEllipse(QPointF(x, y), 4, 4)

    def _paint_speed(self, painter: QPainter, dot: QPointF, words: str) -> None:
        painter.setFont(self._theme.font(self._theme.type.small, self._theme.font(1).Weight.DemiBold))
        painter.setPen(self._theme.color("text"))
        width = painter.fontMetrics().horizontalAdvance(words)
        left = dot.x() - width - 12 if dot.x() > width + 24 else dot.x() + 12
        painter.drawText(QPointF(left, max(14.0, dot.y() - 5)), words)

    # --- mouse, keys, screen readers --------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.setSliderDown(True)
            self._follow(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self.isSliderDown():
            self._follow(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self.isSliderDown():
            self._follow(event)
            self.setSliderDown(False)
            self.settled.emit(self.value())

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # the page scrolls; a budget is not changed by accident

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        super().keyReleaseEvent(event)
        keys = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Home, Qt.Key.Key_End)
        if not event.isAutoRepeat() and event.key() in (*keys, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
            self.settled.emit(self.value())

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.update()

    def _follow(self, event: QMouseEvent) -> None:
        """To the mouse; near a mark, onto it."""
        share = (event.position().x() - SIDE) / max(1, self.width() - 2 * SIDE)
        value = round(share * self._marks.card / MiB)
        for budget in (self._marks.minimum, self._marks.recommended, self._marks.largest_safe):
            if abs(self.x_of(budget) - event.position().x()) <= 4:
                value = budget // MiB
        self.setValue(min(max(value, 0), self.maximum()))

    def _tell(self, value: int) -> None:
        words = tr("{size}, {speed} predicted", size=gib(value * MiB), speed=speed_words(self.speed_at(value * MiB)))
        self.setAccessibleDescription(words)
        self.update()
