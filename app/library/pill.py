"""A small rounded label whose colour says how good the news is."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

Mood = Literal["good", "fair", "bad", "quiet"]


class Pill(QLabel):
    def __init__(self, text: str = "", mood: Mood = "quiet", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("pill")
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.show_text(text, mood)

    def show_text(self, text: str, mood: Mood, reason: str = "") -> None:
        """Never colour alone: the words say the same; `reason` is the sentence behind them."""
        self.setText(text)
        self.setToolTip(reason)
        self.setAccessibleName(f"{text}. {reason}" if reason else text)
        if self.property("mood") != mood:
            self.setProperty("mood", mood)
            self.style().unpolish(self)
            self.style().polish(self)
