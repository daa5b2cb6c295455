"""One token and one chunk of a prompt, step by step: what processor, GPU and link do when, as the plan predicts."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QToolTip, QWidget

from app.theme.kept_picture import KeptPicture
from app.theme.theme import Theme
from app.translation import tr
from engine.placement.simulator import Lane, Task, Timeline

LABELS = 44
ROW, GAP, AXIS = 22, 6, 20
_TOKENS = {Lane.CPU: "place_ram", Lane.GPU: "place_gpu", Lane.LINK: "place_moving"}
_ROWS = {lane: row for row, lane in enumerate(Lane)}


class TimelineView(QWidget):
    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._tasks: list[Task] = []
        self._seconds = 0.0
        self._picture = KeptPicture(self, theme, self._draw)
        self.setFixedHeight(3 * (ROW + GAP) + AXIS)
        theme.changed.connect(self.update)

    def show_timeline(self, timeline: Timeline) -> None:
        self._tasks, self._seconds = timeline.tasks, timeline.seconds
        busy = ", ".join(f"{_lane_words(lane)} {100 * timeline.busy(lane):.0f} %" for lane in Lane)
        self.setAccessibleName(tr("Timeline of one step: {busy}", busy=busy))
        self._picture.forget()

    def sizeHint(self) -> QSize:
        return QSize(480, self.height())

    def _box(self, task: Task) -> QRectF:
        scale = (self.width() - LABELS) / max(self._seconds, 1e-12)
        y = _ROWS[task.lane] * (ROW + GAP)
        return QRectF(LABELS + task.start * scale, y, max(0.6, (task.end - task.start) * scale), ROW)

    def paintEvent(self, event: QPaintEvent) -> None:
        self._picture.paint()

    def _draw(self, painter: QPainter) -> None:
        theme = self._theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)  # tasks have sharp ends
        painter.setFont(theme.font(theme.type.tiny))
        for number, lane in enumerate(Lane):
            y = number * (ROW + GAP)
            painter.fillRect(QRectF(LABELS, y, self.width() - LABELS, ROW), theme.color("hover"))
            painter.setPen(theme.color("muted"))
            painter.drawText(QRectF(0, y, LABELS - 8, ROW), Qt.AlignmentFlag.AlignVCenter, _lane_words(lane))
        colors = {lane: theme.color(token) for lane, token in _TOKENS.items()}
        for task in self._tasks:
            box = self._box(task)
            painter.fillRect(box.adjusted(0, 0, -0.5 if box.width() > 2 else 0, 0), colors[task.lane])
        painter.setPen(theme.color("muted"))
        foot = QRectF(LABELS, self.height() - AXIS, self.width() - LABELS, AXIS)
        painter.drawText(foot, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, "0")
        ends = f"{self._seconds * 1e3:.2f} ms"
        painter.drawText(foot, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, ends)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self.words_at(QPointF(event.pos())), self)
            return True
        return super().event(event)

    def words_at(self, position: QPointF) -> str:
        found = [task for task in self._tasks if self._box(task).adjusted(-1, 0, 1, 0).contains(position)]
        return "\n".join(f"{task.name}: {(task.end - task.start) * 1e6:.0f} µs" for task in found[:6])


def _lane_words(lane: Lane) -> str:
    return tr("link") if lane is Lane.LINK else lane.value
