"""Downloads: what is being fetched, in which order, and how it goes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QFrame, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.flow_layout import FlowLayout
from app.library.download_row import DownloadRow
from app.library.library_controller import LibraryController
from app.library.notice import Notice
from app.theme.theme import Theme
from app.translation import tr

if TYPE_CHECKING:
    from engine.hub.download_status import DownloadStatus

# Rows that only count on are painted in frames of their own (18 ms: one at 60 Hz), all of them between two looks.
STAGGER_MS, STAGGERED = 18, 10


class DownloadsPage(QScrollArea):
    def __init__(self, theme: Theme, library: LibraryController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("page")
        self.setAccessibleName(tr("Downloads"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._theme, self._library = theme, library
        self.rows: dict[str, DownloadRow] = {}
        self._order: list[str] = []
        body = QWidget(self)
        body.setObjectName("pageBody")
        layout = QVBoxLayout(body)
        layout.setContentsMargins(24, 4, 24, 24)
        layout.setSpacing(10)
        self.pause_all = self._button(tr("Pause all"), lambda downloads: downloads.pause_all())
        self.resume_all = self._button(tr("Resume all"), lambda downloads: downloads.resume_all())
        self.clear = self._button(tr("Clear finished"), lambda downloads: downloads.clear_done())
        head = FlowLayout()
        for button in (self.pause_all, self.resume_all, self.clear):
            head.addWidget(button)
        layout.addLayout(head)
        self.notice = Notice(body)
        layout.addWidget(self.notice)
        self._list = QVBoxLayout()
        self._list.setSpacing(8)
        layout.addLayout(self._list)
        layout.addStretch(1)
        self.setWidget(body)
        library.downloads.changed.connect(self.show_downloads)
        self.show_downloads()

    def _button(self, words: str, order: object) -> QPushButton:
        button = QPushButton(words, self)
        button.setObjectName("secondary")

        def press() -> None:
            if self._library.services is not None and callable(order):
                order(self._library.services.downloads)
                self._library.downloads.watch()

        button.clicked.connect(press)
        return button

    def show_downloads(self) -> None:
        from engine.hub.download_status import State

        statuses = self._library.downloads.statuses
        self._arrange([status.id for status in statuses])
        for position, status in enumerate(statuses):
            row = self.rows[status.id]
            if row.is_moving_on(status):
                wait = STAGGER_MS * (position % STAGGERED)
                QTimer.singleShot(wait, row, partial(row.move_on, status))
            else:
                row.show_status(status)
            row.up.setEnabled(position > 0)
            row.down.setEnabled(position < len(statuses) - 1)
        states = {status.state for status in statuses}
        self.pause_all.setEnabled(bool(states & {State.RUNNING, State.QUEUED}))
        self.resume_all.setEnabled(bool(states & {State.PAUSED, State.FAILED}))
        self.clear.setEnabled(State.DONE in states)
        if statuses:
            self.notice.hide()
        else:
            self.notice.show_words(tr("Nothing is being downloaded. Choose a model under Discover."))

    def _arrange(self, ids: list[str]) -> None:
        """Rows in the queue's order; rows are made and removed only when the list itself changes."""
        if ids == self._order:
            return
        for id in set(self._order) - set(ids):
            self.rows.pop(id).deleteLater()
        for position, id in enumerate(ids):
            if id not in self.rows:
                self.rows[id] = self._make_row(id)
            self._list.removeWidget(self.rows[id])
            self._list.insertWidget(position, self.rows[id])
        self._order = ids

    def _make_row(self, id: str) -> DownloadRow:
        row = DownloadRow(self._theme, self)
        services = self._library.services
        assert services is not None
        downloads = services.downloads

        def ordered(order: str) -> None:
            position = self._order.index(id)
            match order:
                case "pause":
                    downloads.pause(id)
                case "resume":
                    downloads.resume(id)
                case "cancel":
                    downloads.cancel(id)
                case "up":
                    downloads.move(id, position - 1)
                case "down":
                    downloads.move(id, position + 1)
            self._library.downloads.watch()

        row.ordered.connect(ordered, Qt.ConnectionType.QueuedConnection)
        return row


def status_words(status: DownloadStatus) -> str:
    """ "1.2 GB of 4.9 GB · 12.3 MB/s · 5 min left"."""
    from app.model_files import format_bytes

    words = [tr("{done} of {size}", done=format_bytes(status.done), size=format_bytes(status.size))]
    if status.speed > 0:
        words.append(f"{format_bytes(status.speed)}/s")
    if status.seconds_left is not None:
        words.append(tr("{time} left", time=duration_words(status.seconds_left)))
    return "  ·  ".join(words)


def duration_words(seconds: float) -> str:
    if seconds < 90:
        return tr("{count} s", count=f"{seconds:.0f}")
    if seconds < 5400:
        return tr("{count} min", count=f"{seconds / 60:.0f}")
    return tr("{count} h", count=f"{seconds / 3600:.1f}")
