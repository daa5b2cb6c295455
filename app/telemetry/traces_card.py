"""The card of live traces: one minute of what the machine does, while the page is on screen."""

from __future__ import annotations

from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QVBoxLayout, QWidget

from app.placement.words import gib, not_known, percent, rate, speed_words
from app.telemetry.history import Trace
from app.telemetry.telemetry_feed import TelemetryFeed
from app.telemetry.trace_view import TraceView
from app.theme.theme import Theme
from app.translation import engine_text, tr

COLUMNS = 5
_LEAST_WIDTH = 130  # pixels of a trace with its space
_TRACES = {
    Trace.VRAM: (gib, "place_gpu", None),
    Trace.RAM: (gib, "place_ram", None),
    Trace.GPU: (percent, "place_gpu", 1.0),
    Trace.CPU: (percent, "place_ram", 1.0),
    Trace.SPEED: (lambda value: not_known() if value is None else speed_words(value), "accent", None),
    Trace.RECEIVED: (rate, "place_gpu", None),
    Trace.SENT: (rate, "place_ram", None),
    Trace.DISK: (rate, "place_disk", None),
    Trace.HITS: (percent, "place_gpu", 1.0),
}


class TracesCard(QFrame):
    def __init__(self, theme: Theme, feed: TelemetryFeed, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self._feed = feed
        title = QLabel(tr("The last minute"), self)
        title.setObjectName("cardTitle")
        self._grid = grid = QGridLayout()
        grid.setHorizontalSpacing(24)
        grid.setVerticalSpacing(14)
        self._columns = 0
        self.views: dict[Trace, TraceView] = {}
        for trace, (words, token, top) in _TRACES.items():
            self.views[trace] = TraceView(theme, tr(trace.value), words, token, top, self)
        self._arrange(COLUMNS)
        self.why = QLabel(self)
        self.why.setObjectName("settingHelp")
        self.why.setWordWrap(True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 14, 20, 16)
        layout.setSpacing(10)
        layout.addWidget(title)
        layout.addLayout(grid)
        layout.addWidget(self.why)
        feed.updated.connect(self._update)
        self._update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fewer beside each other where there is little room."""
        self._arrange(min(COLUMNS, max(2, event.size().width() // _LEAST_WIDTH)))
        super().resizeEvent(event)

    def _arrange(self, columns: int) -> None:
        if columns == self._columns:
            return
        self._columns = columns
        for number, view in enumerate(self.views.values()):
            self._grid.addWidget(view, number // columns, number % columns)
        for column in range(COLUMNS):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)

    def _update(self) -> None:
        if not self.isVisible():
            return
        for trace, view in self.views.items():
            view.show_values(self._feed.history.values[trace])
        snapshot = self._feed.snapshot
        if snapshot is not None:
            words = engine_text(snapshot.gpu_problem)
            if snapshot.gpu is not None and snapshot.gpu.is_unified:
                words = tr("This GPU has no memory of its own: what it uses stands under RAM.")
            self.why.setText(words)
            self.why.setVisible(bool(words))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._update()
