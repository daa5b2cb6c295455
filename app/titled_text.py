"""A title and a quieter line below it: what the rows and cards of the pages are made of."""

from __future__ import annotations

from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget


class TitledText(QVBoxLayout):
    def __init__(self, title: str, words: str, parent: QWidget) -> None:
        super().__init__()
        self.setSpacing(2)
        self.title = self._label(title, "settingTitle", parent)
        self.words = self._label(words, "settingHelp", parent)

    def show_words(self, title: str, words: str) -> None:
        self.title.setText(title)
        self.words.setText(words)
        self.words.setVisible(bool(words))

    def _label(self, text: str, style: str, parent: QWidget) -> QLabel:
        label = QLabel(text, parent)
        label.setObjectName(style)
        label.setWordWrap(True)
        self.addWidget(label)
        return label
