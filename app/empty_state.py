"""What stands in the middle of a page that has nothing to show yet: a mark, a few words, and the way on."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.theme.theme import Theme

MARK, TEXT_WIDTH = 56, 520  # pixels


class EmptyState(QWidget):
    pressed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None, *, icon: str = "tessera") -> None:
        super().__init__(parent)
        self._theme, self._icon = theme, icon
        self.mark = QLabel(self)
        self.title = QLabel(self)
        self.title.setObjectName("emptyTitle")
        self.text = QLabel(self)
        self.text.setObjectName("emptyText")
        self.button = QPushButton(self)
        self.button.setObjectName("primary")
        self.button.setAutoDefault(True)  # Enter presses it, too, which outside of dialogs not every system does
        self.button.clicked.connect(self.pressed)
        self.button.hide()
        for label in (self.mark, self.title, self.text):
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setWordWrap(label is not self.mark)
        self.text.setMaximumWidth(TEXT_WIDTH)
        column = QHBoxLayout()  # keeps the text, which is not as wide as the page, in the middle
        column.addStretch(1)
        column.addWidget(self.text, 1000)
        column.addStretch(1)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(self.button)
        row.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(40, 0, 40, 0)
        layout.addStretch(5)
        layout.addWidget(self.mark)
        layout.addSpacing(14)
        layout.addWidget(self.title)
        layout.addSpacing(4)
        layout.addLayout(column)
        layout.addSpacing(14)
        layout.addLayout(row)
        layout.addStretch(6)
        theme.changed.connect(self._show_mark)
        self._show_mark()

    def show_words(self, title: str, text: str, button: str = "") -> None:
        """Without words for the button there is none."""
        self.title.setText(title)
        self.text.setText(text)
        self.button.setText(button)
        self.button.setVisible(bool(button))

    def _show_mark(self) -> None:
        icon = self._theme.icon(self._icon, "accent")
        self.mark.setPixmap(icon.pixmap(QSize(MARK, MARK), self.devicePixelRatioF()))
