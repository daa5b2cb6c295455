"""Installing GPU support: one transfer at a time, on a thread of its own, told on the main one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from app.background import Background
from engine.hub.gpu_support import GpuSupport

if TYPE_CHECKING:
    from engine.hub.connection import HubSettings
    from engine.hub.file_download import FileDownload

POLL_MS = 200


class GpuInstall(QObject):
    """`changed` after every step and while bytes come; read the properties then."""

    changed = Signal()
    failed = Signal(object)  # Exception
    finished = Signal()

    def __init__(
        self,
        background: Background,
        support: GpuSupport,
        settings: Callable[[], HubSettings],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.support = support
        self._background, self._settings = background, settings
        self._transfer: FileDownload | None = None
        self.is_running = False
        self._timer = QTimer(self)
        self._timer.setInterval(POLL_MS)
        self._timer.timeout.connect(self.changed)

    @property
    def done(self) -> int:
        return self._transfer.done if self._transfer is not None else self.support.kept_bytes

    @property
    def size(self) -> int:
        return self.support.component.source.size

    @property
    def waiting(self) -> str:
        """Why nothing comes at the moment, or an empty string."""
        return self._transfer.waiting if self._transfer is not None else ""

    def start(self) -> None:
        """Download what is missing, verify and unpack it."""
        if self.is_running:
            return
        self.is_running = True
        self._transfer = transfer = self.support.download(self._settings())
        self._timer.start()
        self.changed.emit()

        def work() -> None:
            transfer.run()
            self.support.install()

        self._background.run_in_background(work, lambda _: self._ended(None), self._ended)

    def pause(self) -> None:
        """What has come stays for the next time."""
        if self._transfer is not None:
            self._transfer.abort()

    def remove(self) -> None:
        self._background.run_in_background(self.support.remove, lambda _: self.changed.emit(), self.failed.emit)

    def _ended(self, error: Exception | None) -> None:
        from engine.hub.errors import StoppedError

        self.is_running, self._transfer = False, None
        self._timer.stop()
        self.changed.emit()
        if error is None:
            self.finished.emit()
        elif not isinstance(error, StoppedError):
            self.failed.emit(error)
