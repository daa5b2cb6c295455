"""The downloads as the window knows them: looked at five times a second as long as something moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from app.model_files import format_bytes
from app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.hub.download_status import DownloadStatus
    from engine.hub.downloads import Downloads

POLL_MS = 200


class DownloadWatch(QObject):
    changed = Signal()
    finished = Signal()  # one more has ended well
    progress_changed = Signal(str)  # one line for the title, empty when nothing is going on

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.statuses: tuple[DownloadStatus, ...] = ()
        self._downloads: Downloads | None = None
        self._done: set[str] = set()
        self._progress = ""
        self._timer = QTimer(self)
        self._timer.setInterval(POLL_MS)
        self._timer.timeout.connect(self._look)

    def follow(self, downloads: Downloads) -> None:
        self._downloads = downloads
        self.watch()

    def watch(self) -> None:
        """Look now, and go on as long as something moves; to be called after every order."""
        if self._downloads is not None:
            self._timer.start()
            self._look()

    def stop(self) -> None:
        self._timer.stop()

    def _look(self) -> None:
        from engine.hub.download_status import State

        if self._downloads is None:
            return
        self.statuses = self._downloads.snapshot()
        self.changed.emit()
        text = progress_words(self.statuses)
        if text != self._progress:
            self._progress = text
            self.progress_changed.emit(text)
        done = {one.id for one in self.statuses if one.state is State.DONE}
        if done - self._done:
            self.finished.emit()
        self._done = done
        if not any(one.state in (State.QUEUED, State.RUNNING) for one in self.statuses):
            self._timer.stop()


def progress_words(statuses: Sequence[DownloadStatus]) -> str:
    """One line for the title: "2 downloads, 34 %, 12.3 MB/s"; empty when nothing is going on."""
    from engine.hub.download_status import total_progress

    total = total_progress(statuses)
    if not total.count:
        return ""
    percent, speed = 100 * total.done // max(1, total.size), format_bytes(total.speed)
    if total.count == 1:
        return tr("1 download, {percent} %, {speed}/s", percent=percent, speed=speed)
    return tr("{count} downloads, {percent} %, {speed}/s", count=total.count, percent=percent, speed=speed)
