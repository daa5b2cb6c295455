"""One download: name, progress of all its files, what it waits for, and its buttons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QMessageBox, QProgressBar, QToolButton, QVBoxLayout, QWidget

from app.elided_label import ElidedLabel
from app.library.pill import Mood, Pill
from app.model_files import format_bytes
from app.theme.theme import Theme
from app.translation import engine_text, tr

if TYPE_CHECKING:
    from engine.hub.download_status import DownloadStatus

_MOODS: dict[str, Mood] = {"DONE": "good", "FAILED": "bad", "PAUSED": "fair"}
STEPS = 1000


class DownloadRow(QFrame):
    ordered = Signal(str)  # pause, resume, cancel, up, down

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self._theme = theme
        self._status: DownloadStatus | None = None
        self.name = ElidedLabel(self)
        self.name.setObjectName("settingTitle")
        self.name.setTextFormat(Qt.TextFormat.PlainText)
        self.pill = Pill("", "quiet", self)
        self.bar = QProgressBar(self)
        self.bar.setObjectName("progress")
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(6)
        self.bar.setRange(0, STEPS)
        self.words = ElidedLabel(self)
        self.words.setObjectName("settingHelp")
        self.note = QLabel(self)
        self.note.setObjectName("downloadNote")
        self.note.setWordWrap(True)
        self.note.setTextFormat(Qt.TextFormat.PlainText)
        self.up = self._button("up", "chevron-up", tr("Earlier"))
        self.down = self._button("down", "chevron-down", tr("Later"))
        self.toggle = self._button("pause", "pause", tr("Pause"))
        self.cancel = self._button("cancel", "close", tr("Cancel"))
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self.name)
        head.addWidget(self.pill)
        head.addStretch(1)
        for button in (self.up, self.down, self.toggle, self.cancel):
            head.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 10, 10, 12)
        layout.setSpacing(6)
        layout.addLayout(head)
        layout.addWidget(self.bar)
        layout.addWidget(self.words)
        layout.addWidget(self.note)
        theme.changed.connect(self._apply_theme)
        self._apply_theme()

    def _button(self, order: str, icon: str, words: str) -> QToolButton:
        button = QToolButton(self)
        button.setObjectName("quiet")
        button.setIconSize(QSize(18, 18))
        button.setProperty("icon_name", icon)
        button.setToolTip(words)
        button.setAccessibleName(words)
        button.clicked.connect(lambda: self._press(order))
        return button

    def _press(self, order: str) -> None:
        status = self._status
        if order == "pause" and status is not None and status.state.name in ("PAUSED", "FAILED"):
            order = "resume"
        if order == "cancel" and status is not None and status.state.name != "DONE" and status.done:
            kept = format_bytes(status.done)
            answer = QMessageBox.question(
                self,
                tr("Cancel the download?"),
                tr("{size} of {name} were fetched and will be removed.", size=kept, name=status.name),
                QMessageBox.StandardButton.Yes | QMessageBox.StandardButton.No,
            )
            if answer != QMessageBox.StandardButton.Yes:
                return
        self.ordered.emit(order)

    def is_moving_on(self, status: DownloadStatus) -> bool:
        """Nothing but the bar and its line would change."""
        before = self._status
        return before is not None and (before.state, before.note) == (status.state, status.note)

    def move_on(self, status: DownloadStatus) -> None:
        """Shows it, unless something else has happened since."""
        if self.is_moving_on(status):
            self.show_status(status)

    def show_status(self, status: DownloadStatus) -> None:
        from app.library.downloads_page import status_words

        if status == self._status:
            return
        moving_on, self._status = self.is_moving_on(status), status
        self._show_bar(status)
        self.words.show_line(status_words(status))
        self.words.setToolTip(
            "\n".join(f"{one.name}: {format_bytes(one.done)} / {format_bytes(one.size)}" for one in status.files)
        )
        if not moving_on:
            self._show_state(status)

    def _show_state(self, status: DownloadStatus) -> None:
        """What does not change five times a second: to set it anew would lay out the whole page each time."""
        self.name.setText(status.name)
        self.name.setToolTip(f"{status.repository}\n{status.folder}")
        self.pill.show_text(tr(status.state.value), _MOODS.get(status.state.name, "quiet"))
        self.note.setText(engine_text(status.note))
        self.note.setVisible(bool(status.note))
        self._show_buttons(status.state.name)

    def _show_bar(self, status: DownloadStatus) -> None:
        value, percent = (scale * status.done // max(1, status.size) for scale in (STEPS, 100))
        if value == self.bar.value():
            return
        self.bar.setUpdatesEnabled(False)  # it would paint at once, row after row, instead of with the next frame
        self.bar.setValue(value)
        self.bar.setUpdatesEnabled(True)
        self.bar.setAccessibleName(tr("{percent} % of {name}", percent=percent, name=status.name))

    def _show_buttons(self, state: str) -> None:
        stopped = state in ("PAUSED", "FAILED")
        words = {"FAILED": tr("Try again"), "PAUSED": tr("Resume")}.get(state, tr("Pause"))
        self.toggle.setProperty("icon_name", "play" if stopped else "pause")
        self.toggle.setToolTip(words)
        self.toggle.setAccessibleName(words)
        for button in (self.toggle, self.up, self.down):
            button.setVisible(state != "DONE")
        self._apply_theme()

    def _apply_theme(self) -> None:
        for button in (self.up, self.down, self.toggle, self.cancel):
            button.setIcon(self._theme.icon(button.property("icon_name")))
