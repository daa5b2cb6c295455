"""How something stands, as a card: a mark, a title, a line, and the buttons for what can be done about it."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QWidget

from app.theme.theme import Theme
from app.titled_text import TitledText


class StateCard(QFrame):
    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("card")
        self.mark = QLabel(self)
        self.texts = TitledText("", "", self)
        self.row = QHBoxLayout(self)
        self.row.setContentsMargins(16, 14, 16, 14)
        self.row.setSpacing(12)
        self.row.addWidget(self.mark)
        self.row.addLayout(self.texts, 1)

    def add_button(self, words: str, style: str) -> QPushButton:
        button = QPushButton(words, self)
        button.setObjectName(style)
        self.row.addWidget(button)
        return button

    def say(self, icon: str, color: str, state: str, detail: str) -> None:
        """`color`: a token's name."""
        self.mark.setPixmap(self._theme.icon(icon, color).pixmap(QSize(20, 20), self.devicePixelRatioF()))
        self.texts.show_words(state, detail)
