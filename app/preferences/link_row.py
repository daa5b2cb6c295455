"""A row of the settings that leads to a page of its own."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from app.titled_text import TitledText
from app.translation import tr


class LinkRow(QWidget):
    clicked = Signal()

    def __init__(self, title: str, words: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.has_line = False  # above, to the row before
        self.words = f"{title} {words}".lower()
        self.button = QPushButton(tr("Open"), self)
        self.button.setObjectName("secondary")
        self.button.setAccessibleName(title)
        self.button.setAccessibleDescription(words)
        self.button.clicked.connect(self.clicked)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 12, 16, 12)
        row.setSpacing(12)
        row.addLayout(TitledText(title, words, self), 1)
        row.addWidget(self.button)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.has_line:
            painter = QPainter(self)
            color = QColor(self.palette().color(QPalette.ColorRole.Text))
            color.setAlpha(28)
            painter.fillRect(0, 0, self.width(), 1, color)
            painter.end()
