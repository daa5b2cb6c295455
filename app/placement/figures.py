"""Large numbers with small captions: what a budget is predicted to give, and what was measured."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget


class Figure(QWidget):
    def __init__(self, caption: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.number = QLabel("–", self)
        self.number.setObjectName("figure")
        self.unit = QLabel("", self)
        self.unit.setObjectName("figureUnit")
        self.caption = QLabel(caption, self)
        self.caption.setObjectName("figureCaption")
        self.note = QLabel("", self)
        self.note.setObjectName("figureCaption")
        self.note.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.note.setWordWrap(True)
        line = QHBoxLayout()
        line.setSpacing(5)
        line.addWidget(self.number, 0, Qt.AlignmentFlag.AlignBaseline)
        line.addWidget(self.unit, 0, Qt.AlignmentFlag.AlignBaseline)
        line.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(1)
        layout.addWidget(self.caption)
        layout.addLayout(line)
        layout.addWidget(self.note)

    def show_number(self, number: str, unit: str = "", note: str = "") -> None:
        self.number.setText(number)
        self.unit.setText(unit)
        self.note.setText(note)
        self.setAccessibleName(f"{self.caption.text()}: {number} {unit} {note}".strip())
