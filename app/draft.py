"""What was typed and not sent is there again at the next start, whatever ended the last one."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, QTimer

from app.chat.composer import Composer
from app.store.store_thread import StoreThread

SAVE_MS = 400  # after the last key


class Draft(QObject):
    """Keeps the composer's text in a file, written on the store's thread."""

    def __init__(self, composer: Composer, store: StoreThread, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._composer, self._store, self._path = composer, store, path
        self._saved = ""
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(SAVE_MS)
        self._timer.timeout.connect(self.save)

    def start(self) -> None:
        """Bring back what was there; the store's thread must stand."""
        self._composer.edit.textChanged.connect(self._timer.start)
        self._store.call(lambda _: _read(self._path), self._restore)

    def save(self) -> None:
        self._timer.stop()
        if self._composer.edit_bar.isVisibleTo(self._composer):  # a sent message is being edited: nothing is lost there
            return
        text = self._composer.text
        if text != self._saved:
            self._saved = text
            self._store.call(lambda _: _write(self._path, text))

    def _restore(self, text: str) -> None:
        if text and not self._composer.text:
            self._saved = text
            self._composer.set_text(text)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _write(path: Path, text: str) -> None:
    if not text.strip():
        path.unlink(missing_ok=True)
        return
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8", errors="replace")
    part.replace(path)
