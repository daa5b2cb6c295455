"""One model of a repository: name, size, whether it would run here and why, and the button that fetches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.elided_label import ElidedLabel
from app.library.pill import Mood, Pill
from app.model_files import format_bytes
from app.theme.theme import Theme
from app.translation import engine_text, sentences, tr

if TYPE_CHECKING:
    from engine.hub.fit import Fit
    from engine.hub.names import LogicalModel

_MOODS: dict[str, Mood] = {"gpu": "good", "split": "good", "ram": "good", "short": "fair", "unsupported": "bad"}


class QuantRow(QFrame):
    """Its title is a button, so that keyboard and screen reader can choose the row as a press anywhere on it does."""

    chosen = Signal()
    download_pressed = Signal()

    def __init__(self, theme: Theme, model: LogicalModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("quantRow")
        self.model = model
        self._theme = theme
        self.title = QPushButton(model.quantization or tr("GGUF"), self)
        self.title.setObjectName("rowTitle")
        self.title.setToolTip(tr("Read this file's own header"))
        self.title.clicked.connect(self.chosen)
        size = format_bytes(model.size)
        if model.shards > 1:
            size = tr("{size} in {count} files", size=size, count=model.shards)
        self.name = ElidedLabel(f"{size}  ·  {model.name}", self)
        self.name.setObjectName("settingHelp")
        self.name.setTextFormat(Qt.TextFormat.PlainText)
        self.name.setToolTip("\n".join(file.path for file in model.files))
        self.pill = Pill("", "quiet", self)
        self.reason = QLabel(self)
        self.reason.setObjectName("settingHelp")
        self.reason.setTextFormat(Qt.TextFormat.PlainText)
        self.reason.setWordWrap(True)
        self.reason.hide()
        self.button = QPushButton(tr("Download"), self)
        self.button.setObjectName("secondary")
        self.button.setIconSize(QSize(16, 16))
        self.button.clicked.connect(self.download_pressed)
        texts = QVBoxLayout()
        texts.setSpacing(1)
        head = QHBoxLayout()
        head.setSpacing(10)
        head.addWidget(self.title)
        head.addWidget(self.pill)
        head.addStretch(1)
        texts.addLayout(head)
        texts.addWidget(self.name)
        texts.addWidget(self.reason)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 9, 10, 9)
        row.setSpacing(14)
        row.addLayout(texts, 1)
        row.addWidget(self.button)
        if model.problem or model.missing:
            self.button.setEnabled(False)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.chosen.emit()

    def show_fit(self, fit: Fit, recommended: bool) -> None:
        model = self.model
        if model.problem:
            self.pill.show_text(tr("In pieces"), "bad", engine_text(model.problem))
        elif model.missing:
            numbers = ", ".join(str(number) for number in model.missing)
            self.pill.show_text(
                tr("Incomplete"), "bad", tr("Shard {numbers} is not in the repository.", numbers=numbers)
            )
        else:
            reason = engine_text(fit.reason)
            if not fit.from_header:
                reason = sentences(reason, tr("Estimated from the size; press the row to read the file's own header."))
            self.pill.show_text(engine_text(fit.label), _MOODS[fit.kind.value], reason)
        self.reason.setText(self.pill.toolTip())
        words = f"{self.title.text()}, {self.name.text()}, {self.pill.text()}"
        self.title.setAccessibleName(words)
        self.title.setAccessibleDescription(self.pill.toolTip())
        self.button.setAccessibleDescription(words)
        self.button.setObjectName("primary" if recommended and self.button.isEnabled() else "secondary")
        self.button.style().unpolish(self.button)
        self.button.style().polish(self.button)

    def show_download(self, words: str) -> None:
        """ "Download", or how far it is: a second press would do nothing."""
        self.button.setText(words or tr("Download"))
        self.button.setEnabled(not words and not self.model.problem and not self.model.missing)
