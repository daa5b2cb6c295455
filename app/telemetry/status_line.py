"""The line at the window's foot: model, memory, link, hit rate and speed, on every page."""

from __future__ import annotations

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QWidget

from app.model_controller import ModelController
from app.placement.words import gib, not_known, percent, rate, speed_words
from app.telemetry.history import Trace
from app.telemetry.telemetry_feed import TelemetryFeed
from app.translation import tr

HEIGHT = 26
# Cells in the order in which they make room where the window is narrow.
_LEAST_WANTED = ("hits", "link", "model", "vram", "ram", "speed")


class StatusLine(QFrame):
    clicked = Signal()

    def __init__(self, feed: TelemetryFeed, models: ModelController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("statusLine")
        self.setFixedHeight(HEIGHT)
        self.setToolTip(tr("Show memory and placement"))
        self._feed, self._models = feed, models
        self.cells: dict[str, QLabel] = {}
        layout = QHBoxLayout(self)
        layout.setContentsMargins(14, 0, 14, 0)
        layout.setSpacing(20)
        for name in ("model", "vram", "ram", "link", "hits", "speed"):
            label = QLabel(self)
            label.setObjectName("statusCell")
            self.cells[name] = label
            layout.addWidget(label)
            if name == "model":
                layout.addStretch(1)
        feed.updated.connect(self.refresh)
        models.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Only texts that changed are set: an unchanged line costs no painting."""
        changed = False
        for name, words in self._words().items():
            if self.cells[name].text() != words:
                self.cells[name].setText(words)
                changed = True
        if changed:
            self._make_room()

    def _words(self) -> dict[str, str]:
        feed, info = self._feed, self._models.info
        snapshot, latest = feed.snapshot, feed.history.latest
        residency = feed.residency
        has_device = residency is not None and residency.budget_bytes > 0
        used = latest(Trace.VRAM)
        vram = gib(used) if used is not None else not_known()
        if has_device and residency is not None:
            vram = f"{gib(residency.used_bytes)} / {gib(residency.budget_bytes)}"
        received, sent = latest(Trace.RECEIVED), latest(Trace.SENT)
        link = not_known() if received is None and sent is None else f"↓ {rate(received)}  ↑ {rate(sent)}"
        now = feed.speed
        speed = speed_words(feed.last_speed if now is None else now)
        return {
            "model": info.name if info is not None else tr("no model"),
            "vram": tr("VRAM {size}", size=vram),
            "ram": tr("RAM {size}", size=gib(snapshot.held + snapshot.mapped) if snapshot is not None else not_known()),
            "link": tr("PCIe {rates}", rates=link),
            "hits": tr("hits {share}", share=percent(latest(Trace.HITS))),
            "speed": speed,
        }

    def _make_room(self) -> None:
        room = self.width() - 28
        wanted = {name: label.sizeHint().width() + 20 for name, label in self.cells.items()}
        for name in _LEAST_WANTED:
            fits = sum(wanted.values()) <= room
            self.cells[name].setVisible(fits or len(wanted) == 1)
            if not fits and len(wanted) > 1:
                del wanted[name]

    def minimumSizeHint(self) -> QSize:
        return QSize(0, HEIGHT)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._make_room()

    def mouseReleaseEvent(self, event) -> None:
        super().mouseReleaseEvent(event)
        self.clicked.emit()
